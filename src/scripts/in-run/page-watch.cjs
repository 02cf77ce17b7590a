// Reports to the agent what the pages and the requests of a script do: console and errors of pages, network entries,
// web vitals. Runs in the processes of user scripts: plain CommonJS, no dependency, for every Node.js since 18. Its
// failures change nothing for the script.
'use strict'
const { appendFileSync, openSync } = require('node:fs')
const { seeHeader } = require('./run-preload.cjs')

const TEXT_CHARS_MAX = 4096
const URL_CHARS_MAX = 2048
/** Of each kind, in one process; what comes after is left out, and the last one says so. */
const EVENTS_MAX = 2000

const counts = new Map()
const pages = new WeakMap()
let file
let pageCount = 0

async function watchContext(context) {
  const statuses = new WeakMap()
  context.on('response', (response) => {
    statuses.set(response.request(), response.status())
  })
  // The browser's log has none of requests that a route answers.
  context.on('request', (request) => {
    for (const [name, value] of Object.entries(request.headers())) seeHeader(name, value)
  })
  context.on('requestfinished', (request) => writeRequest(request, statuses.get(request)))
  context.on('requestfailed', (request) =>
    writeRequest(request, statuses.get(request), request.failure()?.errorText ?? 'failed'),
  )
  context.on('console', (message) => {
    const { url, lineNumber } = message.location()
    write({
      event: 'console',
      page: numberOf(message.page()),
      type: message.type(),
      text: text(message.text()),
      ...(url === '' ? {} : { url: address(url), line: lineNumber }),
    })
  })
  context.on('weberror', (failed) => {
    const error = failed.error()
    const message = text(String(error?.message ?? error))
    const page = numberOf(failed.page())
    write({ event: 'page-error', page, message, stack: text(String(error?.stack ?? '')) })
  })
  // The script may close it meanwhile.
  await watchVitals(context).catch(() => {})
}

/** Web vitals, reported by the page whenever one changes, so that none is lost when the page goes. */
async function watchVitals(context) {
  const name = `__vitals${Math.random().toString(36).slice(2)}`
  await context.exposeBinding(name, ({ page, frame }, vitals) => {
    if (frame !== page.mainFrame()) return
    write({ event: 'vitals', page: numberOf(page), ...vitals, url: address(String(vitals.url)) })
  })
  await context.addInitScript(observeVitals, name)
}

/** Runs in the page. Definitions: web.dev/articles/vitals; INP as for a page with few interactions. */
function observeVitals(name) {
  // The empty document before the first navigation is no page of the target.
  if (window !== window.top || location.href === 'about:blank') return
  const vitals = { tbtMs: 0, cls: 0 }
  let [sum, first, last] = [0, 0, 0]
  const report = () => {
    const [navigation] = performance.getEntriesByType('navigation')
    if (navigation !== undefined && navigation.responseStart > 0) {
      vitals.ttfbMs = navigation.responseStart
      if (navigation.loadEventEnd > 0) vitals.loadMs = navigation.loadEventEnd
    }
    const send = window[name]
    if (send !== undefined) void send({ ...vitals, url: location.href }).catch(() => {})
  }
  const on = (type, record, options) => {
    try {
      new PerformanceObserver((list) => {
        list.getEntries().forEach(record)
        report()
      }).observe({ type, buffered: true, ...options })
    } catch {
      // Another browser that does not know it.
    }
  }
  on('paint', (entry) => {
    if (entry.name === 'first-contentful-paint') vitals.fcpMs = entry.startTime
  })
  on('largest-contentful-paint', (entry) => (vitals.lcpMs = entry.startTime))
  on('layout-shift', (entry) => {
    if (entry.hadRecentInput) return
    const goesOn = entry.startTime - last < 1000 && entry.startTime - first < 5000
    sum = goesOn ? sum + entry.value : entry.value
    if (!goesOn) first = entry.startTime
    last = entry.startTime
    vitals.cls = Math.max(vitals.cls, sum)
  })
  on('longtask', (entry) => (vitals.tbtMs += Math.max(0, entry.duration - 50)))
  const interaction = (entry) => {
    if (entry.interactionId > 0) vitals.inpMs = Math.max(vitals.inpMs ?? 0, entry.duration)
  }
  on('event', interaction, { durationThreshold: 16 })
  window.addEventListener('load', () => setTimeout(report, 0))
}

/** A request that the script itself made. */
function writeOwnRequest({ method, url, ...more }) {
  const failure = more.failure === undefined ? {} : { failure: text(more.failure) }
  write({ event: 'network', method, url: address(url), type: 'api', ...more, ...failure })
}

function writeRequest(request, status, failure) {
  const { startTime, responseStart, responseEnd } = request.timing()
  write({
    event: 'network',
    method: request.method(),
    url: address(request.url()),
    type: request.resourceType(),
    page: attempt(() => numberOf(request.frame().page())),
    at: Math.max(0, Math.round(startTime)),
    ms: Math.max(0, responseEnd),
    ...(responseStart > 0 ? { waitMs: responseStart } : {}),
    ...(status === undefined ? {} : { status }),
    ...(failure === undefined ? {} : { failure: text(failure) }),
  })
}

function attempt(work) {
  try {
    return work()
  } catch {
    return undefined
  }
}

function numberOf(page) {
  if (page === null || page === undefined) return 0
  if (!pages.has(page)) pages.set(page, ++pageCount)
  return pages.get(page)
}

function text(given) {
  return cut(given, TEXT_CHARS_MAX)
}

/** What a `data:` address holds is no address. */
function address(url) {
  return cut(url, url.startsWith('data:') ? 40 : URL_CHARS_MAX)
}

/** An ellipsis shows the cut, also to those who look for secrets there. */
function cut(given, charsMax) {
  return given.length > charsMax ? `${given.slice(0, charsMax - 1)}…` : given
}

function write(event) {
  const count = (counts.get(event.event) ?? 0) + 1
  counts.set(event.event, count)
  if (count > EVENTS_MAX) return
  attempt(() => {
    file ??= openSync(process.env.VEDETTE_EVENTS, 'a')
    const last = count === EVENTS_MAX ? { more: true } : {}
    appendFileSync(file, `${JSON.stringify({ ...event, ...last })}\n`)
  })
}

module.exports = { watchContext, writeOwnRequest }
