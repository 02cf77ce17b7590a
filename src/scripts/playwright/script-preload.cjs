// Reports to the agent what the browsers and request contexts of a script do: console and errors of pages, network
// entries, web vitals. Loaded into the processes of user scripts: plain CommonJS, no dependency, for every
// Node.js since 18. It hooks in below Playwright's own calls, so that stacks, steps and traces stay as they
// are; and whatever it does not find, or that fails, changes nothing for the script.
'use strict'
const Module = require('node:module')
const { appendFileSync, openSync } = require('node:fs')
const path = require('node:path')
const startByLauncher = require('./browser-launches.cjs')
const watchHeaders = require('./header-watch.cjs')

const TEXT_CHARS_MAX = 4096
const URL_CHARS_MAX = 2048
/** Of each kind, in one process; what comes after is left out, and the last one says so. */
const EVENTS_MAX = 2000

/** What an ES module imports comes by its path. */
const LIBRARY = /[\\/]playwright-core[\\/]index\.js$/

const proxy = JSON.parse(process.env.VEDETTE_PROXY ?? 'null') ?? undefined
const counts = new Map()
const watched = new WeakSet()
const pages = new WeakMap()
/** Object of Playwright's → hooks by the name of the call. */
const hooked = new WeakMap()
let file
let pageCount = 0

startByLauncher()
const seeHeader = watchHeaders(process.env.VEDETTE_HEADERS, (name, value) =>
  write({ event: 'header', name, value }),
)
const load = Module._load
Module._load = function (request, ...rest) {
  const loaded = Reflect.apply(load, this, [request, ...rest])
  if (request === 'playwright-core' || LIBRARY.test(request)) {
    attempt(() => watchLibrary(loaded))
    attempt(() => patchTimings(path.dirname(Module._resolveFilename(request, rest[0]))))
  }
  return loaded
}

function watchLibrary(playwright) {
  if (watched.has(playwright) || playwright._channel === undefined) return
  watched.add(playwright)
  onCall(playwright, 'newRequest', {
    before: withProxy,
    after: ({ request }) => watchRequests(request._object),
  })
  for (const type of [playwright.chromium, playwright.firefox, playwright.webkit]) {
    onCall(type, 'launch', {
      before: withProxy,
      after: ({ browser }) => watchBrowser(browser._object),
    })
    onCall(type, 'launchPersistentContext', {
      before: withProxy,
      after: ({ context }) => watchContext(context._object),
    })
  }
}

function withProxy(params) {
  return proxy === undefined || params.proxy !== undefined ? params : { ...params, proxy }
}

function watchBrowser(browser) {
  onCall(browser, 'newContext', { after: ({ context }) => watchContext(context._object) })
}

async function watchContext(context) {
  const statuses = new WeakMap()
  context.on('request', (request) => seeAll(request.headers()))
  context.on('response', (response) => void seeExchange(response))
  context.on('response', (response) => statuses.set(response.request(), response.status()))
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
  watchRequests(context.request)
  await watchVitals(context)
}

function seeAll(headers) {
  for (const [name, value] of Object.entries(headers)) seeHeader(name, value)
}

/** With the cookies; as a call that is Playwright's own, which is no step of a test. */
async function seeExchange(response) {
  const list = async (owner) => {
    for (const { name, value } of await owner.headersArray()) seeHeader(name, value)
  }
  try {
    await response._wrapApiCall(() => Promise.all([list(response), list(response.request())]), {
      internal: true,
    })
  } catch {
    // Its page has gone.
  }
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

function watchRequests(api) {
  onCall(api, 'fetch', {
    async around(call, params) {
      const [at, startedAt] = [Date.now(), performance.now()]
      const entry = {
        method: params.method ?? 'GET',
        url: address(params.url ?? ''),
        type: 'api',
        at,
      }
      const ms = () => performance.now() - startedAt
      try {
        const result = await call(params)
        result.response.vedetteMs = ms()
        writeEntry(entry, { status: result.response.status, ms: ms() })
        return result
      } catch (error) {
        writeEntry(entry, { failure: text(String(error?.message ?? error)), ms: ms() })
        throw error
      }
    },
  })
}

/** `getAPIResponseTime` of @checkly/playwright-helpers asks the response for it. */
function patchTimings(core) {
  const { APIResponse } = require(path.join(core, 'lib/client/fetch.js'))
  APIResponse.prototype.timings ??= function () {
    return { total: this._initializer.vedetteMs }
  }
}

function writeRequest(request, status, failure) {
  const timing = request.timing()
  const { startTime, responseStart, responseEnd } = timing
  writeEntry(
    { method: request.method(), url: address(request.url()), type: request.resourceType() },
    {
      page: attempt(() => numberOf(request.frame().page())),
      at: Math.max(0, Math.round(startTime)),
      ms: Math.max(0, responseEnd),
      ...(responseStart > 0 ? { waitMs: responseStart } : {}),
      ...(status === undefined ? {} : { status }),
      ...(failure === undefined ? {} : { failure: text(failure) }),
    },
  )
}

function writeEntry(entry, more) {
  write({ event: 'network', ...entry, ...more })
}

/** Stands between a call of Playwright's and its server side; what it does itself never fails the call. */
function onCall(owner, name, { before, after, around }) {
  const channel = owner._channel
  if (channel === undefined) return
  const known = hooked.get(owner)
  const calls = known ?? new Map()
  calls.set(name, { before, after, around })
  if (known !== undefined) return
  hooked.set(owner, calls)
  owner._channel = new Proxy(channel, {
    get(target, property) {
      const given = Reflect.get(target, property)
      const hooks = calls.get(property)
      if (hooks === undefined || typeof given !== 'function') return given
      const call = (params) => given.call(target, params)
      return async (params) => {
        if (hooks.around !== undefined) return hooks.around(call, params)
        const result = await call(attempt(() => hooks.before?.(params)) ?? params)
        await attempt(() => hooks.after?.(result))?.catch?.(() => {})
        return result
      }
    },
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
  return given.slice(0, TEXT_CHARS_MAX)
}

/** What a `data:` address holds is no address. */
function address(url) {
  return (url.startsWith('data:') ? url.slice(0, 40) : url).slice(0, URL_CHARS_MAX)
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
