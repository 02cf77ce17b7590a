// Reports to the agent what a Playwright run does, an event a line, in the file that VEDETTE_EVENTS names. It runs
// inside of user projects: plain CommonJS, no dependency, for every Node.js since 18 and for Bun, and for
// every Playwright since 1.40. What it writes is read by events.ts, with its own bounds.
'use strict'
const { appendFileSync, openSync } = require('node:fs')
const path = require('node:path')

const TEXT_CHARS_MAX = 65536
const BODY_BYTES_MAX = 1048576
/** Of the errors of an attempt together, as JSON: the agent reads lines up to 4 MiB. */
const LIST_CHARS_MAX = 1500000

/** Categories of steps that are reported; the rest is internal to Playwright. */
const SHOWN_STEPS = new Set(['test.step', 'pw:api', 'expect', 'hook'])

/** Its own calls are no steps of a test. */
const PAGE_WATCH = path.join(__dirname, 'page-watch.cjs')
/** Of script-preload.cjs, which stands between a script and Playwright. */
const OWN_FRAMES = /\n +at .*\/\.vedette\/node_modules\/.*/g

class VedetteReporter {
  constructor() {
    this.file = openSync(process.env.VEDETTE_EVENTS, 'a')
    this.broken = false
  }

  printsToStdio() {
    return false
  }

  version() {
    return 'v2'
  }

  onConfigure(config) {
    this.config = config
    this.root = config.rootDir
  }

  onBegin(suite) {
    const { config } = this
    const tests = suite.allTests()
    this.write({
      event: 'begin',
      playwright: config.version,
      workers: config.workers,
      tests: tests.length,
    })
    for (const test of tests) this.write({ event: 'test', ...this.factsOf(test) })
  }

  factsOf(test) {
    const [, project = '', , ...titles] = test.titlePath()
    return {
      id: test.id,
      titles: titles.map(text),
      project,
      file: this.relative(test.location.file),
      line: test.location.line,
      tags: test.tags ?? [],
      retries: test.retries,
      expectedStatus: test.expectedStatus,
    }
  }

  onTestBegin(test, result) {
    this.write({ event: 'start', id: test.id, retry: result.retry, at: +result.startTime })
  }

  onStepEnd(test, result, step) {
    if (!SHOWN_STEPS.has(step.category)) return
    // Calls inside of a step of the user belong to it; calls inside of calls say nothing new.
    if (step.parent !== undefined && step.parent.category !== 'test.step') return
    if (step.location?.file === PAGE_WATCH) return
    let depth = 0
    for (let above = step.parent; above !== undefined; above = above.parent) depth++
    this.write({
      event: 'step',
      id: test.id,
      retry: result.retry,
      title: text(step.title),
      category: step.category,
      depth,
      ms: step.duration,
      ...(step.error === undefined ? {} : { error: this.errorOf(step.error) }),
    })
  }

  onStdOut(chunk, test, result) {
    this.output('stdout', chunk, test, result)
  }

  onStdErr(chunk, test, result) {
    this.output('stderr', chunk, test, result)
  }

  output(stream, chunk, test, result) {
    const id = test?.id
    this.write({ event: 'output', stream, id, retry: result?.retry, text: text(String(chunk)) })
  }

  onTestEnd(test, result) {
    const attempt = { id: test.id, retry: result.retry }
    for (const one of result.attachments)
      this.write({ event: 'attachment', ...attempt, ...attachmentOf(one) })
    const errors = (result.errors ?? []).map((error) => this.errorOf(error))
    const annotations = test.annotations.map(annotationOf)
    const shown = { errors: fitting(errors), annotations: fitting(annotations) }
    const count = errors.length + annotations.length
    const leftOut = count - shown.errors.length - shown.annotations.length
    this.write({
      event: 'end',
      ...attempt,
      status: result.status,
      outcome: test.outcome(),
      ms: result.duration,
      ...shown,
      ...(leftOut === 0 ? {} : { leftOut }),
      ...(isVideoMissing(test, result) ? { isVideoMissing: true } : {}),
    })
  }

  onError(error) {
    this.write({ event: 'error', error: this.errorOf(error) })
  }

  onEnd(result) {
    this.write({ event: 'finish', status: result.status, ms: result.duration })
  }

  errorOf({ message, value, stack, snippet, location }) {
    return {
      message: text(message ?? String(value ?? 'unknown error')),
      ...(stack === undefined ? {} : { stack: text(stack.replace(OWN_FRAMES, '')) }),
      ...(snippet === undefined ? {} : { snippet: text(snippet) }),
      ...(location === undefined
        ? {}
        : { file: this.relative(location.file), line: location.line, column: location.column }),
    }
  }

  relative(file) {
    const inside = path.relative(this.root ?? process.cwd(), file)
    return inside.startsWith('..') ? file : inside
  }

  write(event) {
    if (this.broken) return
    try {
      appendFileSync(this.file, `${JSON.stringify(event)}\n`)
    } catch {
      // A full disk ends the reports, not the run; the agent sees that the end is missing.
      this.broken = true
    }
  }
}

/** The first ones of a list, as many as fit a line. */
function fitting(list) {
  let left = LIST_CHARS_MAX
  return list.filter((one) => (left -= JSON.stringify(one).length) >= 0)
}

function annotationOf({ type, description }) {
  return {
    type: text(type),
    ...(description === undefined ? {} : { description: text(description) }),
  }
}

function attachmentOf({ name, contentType, path: file, body }) {
  if (file !== undefined) return { name, contentType, path: file }
  const bytes = body?.length ?? 0
  if (bytes > BODY_BYTES_MAX) return { name, contentType, bytes }
  return { name, contentType, bytes, body: Buffer.from(body ?? '').toString('base64') }
}

/** Attempts of which Playwright keeps a video, by its mode. */
const RETAINED_VIDEOS = {
  on: () => true,
  'retain-on-failure': (retry, hasFailed) => hasFailed,
  'retain-on-first-failure': (retry, hasFailed) => hasFailed && retry === 0,
  'retain-on-failure-and-retries': (retry, hasFailed) => hasFailed || retry > 0,
  'on-first-retry': (retry) => retry === 1,
  'retry-with-video': (retry) => retry === 1,
  'on-all-retries': (retry) => retry > 0,
}

/** Whether there would be a video of the attempt, had suite-wrapping.cjs not had to turn them off. */
function isVideoMissing(test, result) {
  const mode = test.parent?.project?.()?.use?.vedetteVideoWanted
  if (typeof mode !== 'string' || result.status === 'skipped') return false
  const isRetained = Object.hasOwn(RETAINED_VIDEOS, mode) ? RETAINED_VIDEOS[mode] : () => false
  return (
    isRetained(result.retry, result.status !== test.expectedStatus) && hasPage(result.steps ?? [])
  )
}

/** Tests that take no page have none to show. */
function hasPage(steps) {
  return steps.some(
    ({ category, title, steps: inner }) =>
      (category === 'fixture' && /\b(?:context|page)\b/.test(title)) || hasPage(inner ?? []),
  )
}

/** Bounded, and without the colours of a terminal. An ellipsis shows a cut, also to those who look for secrets there. */
function text(given) {
  const isCut = given.length > TEXT_CHARS_MAX
  const part = isCut ? `${given.slice(0, TEXT_CHARS_MAX - 1)}…` : given
  // oxlint-disable-next-line no-control-regex -- what it takes out are control sequences
  return part.replace(/\u001B\[[0-9;]*[A-Za-z]/g, '')
}

module.exports = VedetteReporter
