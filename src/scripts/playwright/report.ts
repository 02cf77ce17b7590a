// Report of a run of Playwright: every test with its attempts, steps, errors and attachments, gathered from
// events and bounded, so that a suite of any size makes a result that can be sent.
import { excerpt } from '../../contract/failure.ts'
import type { ScriptContext } from '../context.ts'
import type {
  AttemptStatus,
  EventOf,
  PlaywrightEvent,
  RunAttachment,
  RunError,
  TestOutcome,
} from './events.ts'

/** A step of an attempt, in the order in which they ended. */
export interface TestStep {
  title: string
  category: string
  /** Steps of the user that it is inside of. */
  depth: number
  durationMs: number
  error?: string
}

export interface TestAttempt {
  /** From 0. */
  retry: number
  /** Absent while it runs. */
  status?: AttemptStatus
  /** Milliseconds since the Unix epoch. */
  startedAt: number
  durationMs: number
  steps: TestStep[]
  errors: RunError[]
  attachments: RunAttachment[]
  output: string
}

/** A test with all attempts at it. */
export interface TestReport extends Pick<
  EventOf<'test'>,
  'id' | 'project' | 'file' | 'line' | 'tags' | 'retries'
> {
  title: string
  /** Absent when the run ended before the test did. */
  outcome?: TestOutcome
  annotations: EventOf<'end'>['annotations']
  attempts: TestAttempt[]
}

export interface PlaywrightReport {
  playwrightVersion?: string | undefined
  workers?: number | undefined
  /** How Playwright says that it ended: passed, failed, timedout, interrupted; absent when it was cut off. */
  status?: string
  durationMs?: number
  stats: Record<TestOutcome | 'total' | 'unfinished', number>
  tests: TestReport[]
  /** Errors outside of any test. */
  errors: RunError[]
  /** Number of tests, steps and texts beyond the bounds. */
  leftOut: number
}

export const REPORT_BOUNDS = {
  testsMax: 2000,
  stepsPerAttemptMax: 200,
  outputCharsPerAttemptMax: 16_384,
  errorsMax: 50,
  attachmentsPerAttemptMax: 10_000,
} as const

/** Gathers events into a report; may be asked for it at any time. */
export class PlaywrightReportBuilder {
  readonly #tests = new Map<string, TestReport>()
  readonly #errors: RunError[] = []
  #about: Pick<PlaywrightReport, 'playwrightVersion' | 'workers' | 'status' | 'durationMs'> = {}
  #expected = 0
  #leftOut = 0

  add(event: PlaywrightEvent): void {
    switch (event.event) {
      case 'begin':
        this.#about = { playwrightVersion: event.playwright, workers: event.workers }
        this.#expected = event.tests
        break
      case 'test':
        this.#addTest(event)
        break
      case 'start':
        this.#start(event)
        break
      case 'step':
        this.#step(event)
        break
      case 'output':
        this.#output(event)
        break
      case 'attachment':
        this.#attachment(event)
        break
      case 'end':
        this.#end(event)
        break
      case 'error':
        this.#addBounded(this.#errors, event.error, REPORT_BOUNDS.errorsMax)
        break
      case 'finish':
      default:
        this.#about = { ...this.#about, status: event.status, durationMs: event.ms }
    }
  }

  /** No more events come: tests that began and reported no end were interrupted with the run. */
  close(atMs: number): void {
    for (const { attempts } of this.#tests.values()) {
      for (const attempt of attempts) {
        if (attempt.status !== undefined) continue
        attempt.status = 'interrupted'
        attempt.durationMs = Math.max(0, atMs - attempt.startedAt)
      }
    }
  }

  progress(): { done: number; total: number } {
    const done = [...this.#tests.values()].filter(({ outcome }) => outcome !== undefined).length
    return { done, total: Math.max(this.#expected, this.#tests.size) }
  }

  /** The displayed name of the test: `shop.spec.ts › order`; undefined where it is not known. */
  nameOf(id: string): string | undefined {
    const test = this.#tests.get(id)
    return test && `${test.file} › ${test.title}`
  }

  report(): PlaywrightReport {
    const tests = [...this.#tests.values()]
    const stats = {
      expected: 0,
      unexpected: 0,
      flaky: 0,
      skipped: 0,
      unfinished: 0,
      total: tests.length,
    }
    for (const { outcome } of tests) stats[outcome ?? 'unfinished']++
    return { ...this.#about, stats, tests, errors: [...this.#errors], leftOut: this.#leftOut }
  }

  #addTest({ id, titles, project, file, line, tags, retries }: EventOf<'test'>): void {
    if (this.#tests.size >= REPORT_BOUNDS.testsMax || this.#tests.has(id)) {
      this.#leftOut++
      return
    }
    const title = titles.join(' › ')
    const facts = { id, title, project, file, line, tags, retries }
    this.#tests.set(id, { ...facts, annotations: [], attempts: [] })
  }

  #start({ id, retry, at: startedAt }: EventOf<'start'>): void {
    const attempts = this.#tests.get(id)?.attempts
    if (attempts === undefined || attempts.some((one) => one.retry === retry)) {
      this.#leftOut++
      return
    }
    const nothing = { durationMs: 0, steps: [], errors: [], attachments: [], output: '' }
    attempts.push({ retry, startedAt, ...nothing })
  }

  #step({ id, retry, title, category, depth, ms, error }: EventOf<'step'>): void {
    const step: TestStep = { title, category, depth, durationMs: ms }
    if (error !== undefined) step.error = error.message
    const steps = this.#attempt(id, retry)?.steps
    this.#addBounded(steps, step, REPORT_BOUNDS.stepsPerAttemptMax)
  }

  #output({ id, retry, text }: EventOf<'output'>): void {
    const attempt = this.#attempt(id, retry)
    // What belongs to no test is in the output of the whole run.
    if (attempt === undefined) return
    const { outputCharsPerAttemptMax: charsMax } = REPORT_BOUNDS
    const room = charsMax - attempt.output.length
    if (text.length <= room) {
      attempt.output += text
      return
    }
    this.#leftOut++
    // An ellipsis shows the cut, also where the texts before filled it: parts of secrets are searched for there.
    if (!attempt.output.endsWith('…')) attempt.output = excerpt(attempt.output + text, charsMax - 1)
  }

  #attachment({ id, retry, name, contentType, path, bytes, body }: EventOf<'attachment'>): void {
    const attachments = this.#attempt(id, retry)?.attachments
    const file = { name, contentType, path, bytes, body }
    this.#addBounded(attachments, file, REPORT_BOUNDS.attachmentsPerAttemptMax)
  }

  #end({ id, retry, status, outcome, ms, ...event }: EventOf<'end'>): void {
    const test = this.#tests.get(id)
    const attempt = this.#attempt(id, retry)
    if (test === undefined || attempt === undefined) {
      this.#leftOut++
      return
    }
    test.annotations = event.annotations
    this.#leftOut += event.leftOut ?? 0
    Object.assign(attempt, { status, durationMs: ms })
    for (const error of event.errors) {
      this.#addBounded(attempt.errors, error, REPORT_BOUNDS.errorsMax)
    }
    // A failure that is tried again is no outcome yet. Playwright calls a test that it has interrupted skipped,
    // if it still comes to say so.
    const isLast = outcome !== 'unexpected' || retry >= test.retries
    if (isLast && status !== 'interrupted') test.outcome = outcome
  }

  #attempt(id: string | undefined, retry: number | undefined): TestAttempt | undefined {
    return this.#tests.get(id ?? '')?.attempts.find((one) => one.retry === retry)
  }

  #addBounded<T>(list: T[] | undefined, one: T, most: number): void {
    if (list !== undefined && list.length < most) list.push(one)
    else this.#leftOut++
  }
}

const URGENCY = ['unexpected', undefined, 'flaky', 'expected', 'skipped']

/** Failed tests first, for lists that do not hold all. */
export function byUrgency(tests: readonly TestReport[]): TestReport[] {
  return tests.toSorted((a, b) => URGENCY.indexOf(a.outcome) - URGENCY.indexOf(b.outcome))
}

const LINE_CHARS_MAX = 200

/** Reports the progress when the event changes it. */
export function reportProgress(
  event: PlaywrightEvent,
  report: PlaywrightReportBuilder,
  context: Pick<ScriptContext, 'progress'>,
): void {
  if (context.progress === undefined) return
  const line = lineOf(event, report)
  if (line === undefined && event.event !== 'begin') return
  context.progress({
    phase: 'test',
    ...report.progress(),
    ...(line === undefined ? {} : { line: excerpt(line, LINE_CHARS_MAX) }),
  })
}

/** The test that has begun or ended, or the error; undefined for other events. */
function lineOf(event: PlaywrightEvent, report: PlaywrightReportBuilder): string | undefined {
  if (event.event === 'error') return event.error.message.split('\n')[0]
  return event.event === 'start' || event.event === 'end' ? report.nameOf(event.id) : undefined
}
