// What the result of a suite's run says: the verdict, about the target where tests ran, about the project or the agent
// where none could; and the observation of every test.
import { excerpt, failure, type Failure } from '../contract/failure.ts'
import { sandboxFailure } from '../sandbox/failure.ts'
import type { RunError } from '../scripts/playwright/events.ts'
import {
  byUrgency,
  type PlaywrightReport,
  type TestAttempt,
  type TestReport,
} from '../scripts/playwright/report.ts'
import type { SandboxEnd } from '../sandbox/request.ts'

export interface SuiteVerdict {
  failures: Failure[]
  /** All is well, but some test only when it was tried again. */
  degraded: boolean
}

/** The setting that gives a suite more heap, its installation included. */
export const SUITE_HEAP = 'NODE_OPTIONS=--max-old-space-size=<MiB> among the variables of the suite'

const NAMED_TESTS_MAX = 20
const MESSAGE_CHARS_MAX = 2000

/** Evaluates a run that nobody cancelled. */
export function suiteVerdict(end: SandboxEnd, report: PlaywrightReport): SuiteVerdict {
  const { stats } = report
  const failures: Failure[] = []
  if (stats.unexpected > 0) failures.push(testsFailed(report))
  const cut = sandboxFailure(end, 'the tests', SUITE_HEAP)
  if (cut !== undefined) failures.push(cut)
  else if (end.outcome === 'exited') failures.push(...outsideOfTests(end, report))
  return { failures, degraded: failures.length === 0 && stats.flaky > 0 }
}

function testsFailed({ stats, tests }: PlaywrightReport): Failure {
  const failed = tests.filter(({ outcome }) => outcome === 'unexpected')
  const names = failed.slice(0, 3).map(nameOf)
  const more = failed.length > names.length ? `, and ${failed.length - names.length} more` : ''
  const message = `${failed.length} of ${stats.total} tests failed: ${names.join(', ')}${more}`
  return failure('TESTS_FAILED', message, {
    tests: failed.slice(0, NAMED_TESTS_MAX).map((test) => ({
      test: nameOf(test),
      at: `${test.file}:${test.line}`,
      error: excerpt(test.attempts.at(-1)?.errors[0]?.message ?? 'failed', MESSAGE_CHARS_MAX),
    })),
  })
}

function nameOf({ title, project }: TestReport): string {
  return project === '' ? title : `${title} (${project})`
}

/** What Playwright says as well when the files of tests are broken. */
const NOTHING_FOUND = /\bNo tests found\b/

/** Of a command that ended by itself: what went wrong outside of the tests. */
function outsideOfTests(end: SandboxEnd, report: PlaywrightReport): Failure[] {
  const { stats, status, errors } = report
  if (status === undefined) return [neverRan(end)]
  if (status === 'timedout') {
    return [failure('TIMEOUT_RUN', 'the tests took longer than the globalTimeout of the suite')]
  }
  const first = errors.find(({ message }) => !NOTHING_FOUND.test(message))
  if (first === undefined && errors[0] !== undefined) {
    return [failure('NO_TESTS', excerpt(errors[0].message, MESSAGE_CHARS_MAX))]
  }
  if (first !== undefined) return [brokenBy(first, report)]
  if (stats.total === 0) return [failure('NO_TESTS', 'the suite has no test')]
  if (stats.skipped === stats.total) {
    return [failure('NO_TESTS', `all ${stats.total} tests are skipped: nothing was tested`)]
  }
  if (stats.unexpected > 0 || end.exitCode === 0) return []
  const message = `the test command ended with exit code ${end.exitCode}, and no test has failed`
  return [failure('SUITE_FAILED', message, { output: tailOf(end) })]
}

/** Playwright never began: the command, or the configuration, is at fault. */
function neverRan(end: SandboxEnd): Failure {
  const output = tailOf(end)
  if (NOTHING_FOUND.test(output)) return failure('NO_TESTS', 'no tests found', { output })
  if (end.exitCode === 0) {
    return failure('NO_TESTS', 'the test command succeeded but ran no Playwright test', {
      output,
    })
  }
  const message = `the test command ended with exit code ${end.exitCode} before any test: ${firstComplaint(saidBy(end))}`
  return failure('SUITE_INVALID', excerpt(message, MESSAGE_CHARS_MAX), { output })
}

/** Mistakes in code, as opposed to what a target can cause. */
const MISTAKE =
  /^(?:\w*Error: )?(?:SyntaxError|ReferenceError|TypeError|Cannot find (?:module|package)|Error: Cannot find)|\bdid not expect test|duplicate test title|Project\(s\) .* not found/

function brokenBy(error: RunError, { stats, tests }: PlaywrightReport): Failure {
  const text = excerpt(error.message, MESSAGE_CHARS_MAX)
  const where = error.file === undefined ? '' : ` (${error.file}:${error.line ?? 0})`
  const began = tests.some(({ attempts }) => attempts.length > 0)
  if (!began && MISTAKE.test(error.message)) {
    return failure('SUITE_INVALID', `the suite cannot be loaded: ${text}${where}`)
  }
  const when = stats.total === 0 || !began ? 'before its tests' : 'outside of its tests'
  return failure('SUITE_FAILED', `the suite failed ${when}: ${text}${where}`)
}

/** The end of what was said: errors first, as programs put them there. */
function tailOf(end: SandboxEnd): string {
  return saidBy(end).slice(-MESSAGE_CHARS_MAX)
}

function saidBy({ tail }: SandboxEnd): string {
  return (tail.stderr.trim() === '' ? tail.stdout : tail.stderr).trim()
}

function firstComplaint(output: string): string {
  const lines = output.split('\n').map((line) => line.trim())
  const found = lines.find((line) => /error|cannot|not found|no such/i.test(line))
  return found ?? lines.find((line) => line !== '') ?? 'no output'
}

// The observation of the tests, with as much detail as fits; the artifact `results.json` has all of it.

/** Bytes of JSON; what is sent with a result has its bound. */
const OBSERVED_BYTES_MAX = 160_000
const ERROR_CHARS_MAX = 4000

/** How much of a test is shown, from all to little. */
interface Detail {
  stepsOf: 'all' | 'failed' | 'none'
  outputCharsMax: number
  messageCharsMax: number
  testsMax: number
}

const LEVELS: readonly Detail[] = [
  { stepsOf: 'all', outputCharsMax: 4000, messageCharsMax: ERROR_CHARS_MAX, testsMax: 2000 },
  { stepsOf: 'failed', outputCharsMax: 1000, messageCharsMax: ERROR_CHARS_MAX, testsMax: 2000 },
  { stepsOf: 'none', outputCharsMax: 0, messageCharsMax: 500, testsMax: 2000 },
  { stepsOf: 'none', outputCharsMax: 0, messageCharsMax: 200, testsMax: 500 },
  { stepsOf: 'none', outputCharsMax: 0, messageCharsMax: 200, testsMax: 50 },
]

/** The report as plain JSON that fits into a result; `leftOut` says what does not. */
export function observedTests(report: PlaywrightReport): Record<string, unknown> {
  const { stats, status, durationMs, playwrightVersion, workers, leftOut } = report
  const facts = {
    playwrightVersion,
    workers,
    status,
    durationMs,
    stats,
    errors: report.errors.slice(0, 10).map(({ message }) => excerpt(message, ERROR_CHARS_MAX)),
    ...(leftOut === 0 ? {} : { leftOut }),
  }
  // Where not all fit, failed tests are kept.
  const inOrder = report.tests.length > 50 ? byUrgency(report.tests) : report.tests
  for (const detail of LEVELS) {
    const tests = inOrder.slice(0, detail.testsMax)
    const shown = tests.map((test) => shownTest(test, detail))
    if (Buffer.byteLength(JSON.stringify(shown)) > OBSERVED_BYTES_MAX && detail !== LEVELS.at(-1))
      continue
    const isWhole = detail === LEVELS[0]
    return { ...facts, tests: shown, ...(isWhole ? {} : { shortened: 'see results.json' }) }
  }
  return facts
}

function shownTest(test: TestReport, detail: Detail): Record<string, unknown> {
  const { title, project, file, line, tags, outcome, annotations, attempts } = test
  return {
    title,
    ...(project === '' ? {} : { project }),
    at: `${file}:${line}`,
    outcome: outcome ?? 'unfinished',
    ...(tags.length === 0 ? {} : { tags }),
    ...(annotations.length === 0 ? {} : { annotations }),
    attempts: attempts.map((one) => shownAttempt(one, detail, outcome === 'expected')),
  }
}

function shownAttempt(attempt: TestAttempt, detail: Detail, isGood: boolean) {
  const { status, durationMs, steps, errors, attachments, output } = attempt
  const showsSteps = detail.stepsOf === 'all' || (detail.stepsOf === 'failed' && !isGood)
  return {
    status: status ?? 'unfinished',
    durationMs,
    ...(showsSteps && steps.length > 0 ? { steps } : {}),
    ...(errors.length === 0
      ? {}
      : { errors: errors.map(({ message }) => excerpt(message, detail.messageCharsMax)) }),
    ...(attachments.length === 0
      ? {}
      : { attachments: attachments.slice(0, 20).map(({ name }) => name) }),
    ...(output === '' || detail.outputCharsMax === 0
      ? {}
      : { output: excerpt(output, detail.outputCharsMax) }),
  }
}
