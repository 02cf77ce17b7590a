// Verdict of a run of a suite: about the target where tests ran, about the project or the agent where none could.
import { failure, type Failure } from '../contract/failure.ts'
import type { SandboxEnd } from '../sandbox/sandbox.ts'
import { sandboxFailure, type FailureSettings } from '../sandbox/failure.ts'
import type { RunError } from '../scripts/playwright/events.ts'
import type { PlaywrightReport, TestReport } from '../scripts/playwright/report.ts'

/** A verdict in the making. */
export interface SuiteVerdict {
  failures: Failure[]
  /** All is well, but some test only when it was tried again. */
  degraded: boolean
}

/** What raises limits of a suite, its installation included. */
export const SUITE_SETTINGS: FailureSettings = {
  heap: 'NODE_OPTIONS=--max-old-space-size=<MiB> among the variables of the suite',
}

const NAMED_TESTS_MAX = 20
const MESSAGE_CHARS_MAX = 2000

/** Evaluators a run that nobody cancelled. */
export function suiteVerdict(end: SandboxEnd, report: PlaywrightReport): SuiteVerdict {
  const { stats } = report
  const failures: Failure[] = []
  if (stats.unexpected > 0) failures.push(testsFailed(report))
  const cut = sandboxFailure(end, 'the tests', SUITE_SETTINGS)
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
      error: cutTo(test.attempts.at(-1)?.errors[0]?.message ?? 'failed'),
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
    return [failure('NO_TESTS', cutTo(errors[0].message))]
  }
  if (first !== undefined) return [brokenBy(first, report)]
  if (stats.total === 0) return [failure('NO_TESTS', 'the suite has no test')]
  if (stats.skipped === stats.total) {
    return [failure('NO_TESTS', `all ${stats.total} tests are skipped: nothing was looked at`)]
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
    return failure('NO_TESTS', 'the test command ended well, and ran no test of Playwright', {
      output,
    })
  }
  const message = `the test command ended with exit code ${end.exitCode} before any test: ${firstComplaint(saidBy(end))}`
  return failure('SUITE_INVALID', cutTo(message), { output })
}

/** Mistakes in code, as opposed to what a target can cause. */
const MISTAKE =
  /^(?:\w*Error: )?(?:SyntaxError|ReferenceError|TypeError|Cannot find (?:module|package)|Error: Cannot find)|\bdid not expect test|duplicate test title|Project\(s\) .* not found/

function brokenBy(error: RunError, { stats, tests }: PlaywrightReport): Failure {
  const text = cutTo(error.message)
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
  return found ?? lines.find((line) => line !== '') ?? 'it said nothing'
}

function cutTo(text: string): string {
  return text.length > MESSAGE_CHARS_MAX ? `${text.slice(0, MESSAGE_CHARS_MAX)}…` : text
}
