// Verdict about the target from the tests of a script that was not cut short.
import { failure, type Failure } from '../contract/failure.ts'
import type { RunError } from './playwright/events.ts'
import type { PlaywrightReport, TestAttempt } from './playwright/report.ts'
import type { SandboxEnd } from '../sandbox/request.ts'

/** The verdict of a run's tests, when it was not cut short. */
export function testFailures(report: PlaywrightReport, end: SandboxEnd): Failure[] {
  const failed = report.tests.flatMap(({ title, outcome, attempts }) => {
    if (outcome !== 'unexpected' && outcome !== undefined) return []
    const { errors = [], status } = attempts.at(-1) ?? {}
    const why =
      errors.length === 0 ? [{ message: `the test ${status ?? 'did not start'}` }] : errors
    return why.map((error) => scriptFailure(error, title))
  })
  if (failed.length > 0) return failed
  if (report.tests.length === 0) {
    const [first] = report.errors
    return [
      failure('SCRIPT_INVALID', first?.message ?? 'the script defines no test', placeOf(first)),
    ]
  }
  // Errors outside of tests, such as those of a set-up that all of them share.
  if (report.errors.length > 0) return report.errors.map((error) => scriptFailure(error))
  if (end.exitCode === 0) return []
  return [failure('SCRIPT_FAILED', `the script ended with exit code ${end.exitCode}`)]
}

/** How Playwright reports a worker that a signal ended. */
const ENDED_WORKER = /^Error: worker process exited unexpectedly \(code=\w+, signal=(SIG\w+)\)/

/** A failure of the code itself, with its place. What a signal ended says nothing of the target. */
export function scriptFailure(error: RunError, test?: string): Failure {
  const named = test === undefined ? {} : { test }
  const [, signal] = ENDED_WORKER.exec(error.message) ?? []
  if (signal !== undefined) {
    return failure('RUN_CRASHED', `a signal ended the script (${signal})`, named)
  }
  return failure('SCRIPT_FAILED', error.message, { ...named, ...placeOf(error) })
}

/** A failure of code that cannot be begun, with its place in the message as well. */
export function unreadScript(error: RunError): Failure {
  const { message, file, line, column } = error
  const at = file === undefined ? '' : ` (${file}:${line}:${column})`
  return failure('SCRIPT_INVALID', `${message}${at}`, placeOf(error))
}

function placeOf(error: RunError | undefined): Record<string, unknown> {
  const { file, line, column, snippet } = error ?? {}
  return {
    ...(file === undefined ? {} : { file, line, column }),
    ...(snippet === undefined ? {} : { snippet }),
  }
}

/** Whether all that failed were soft assertions: then a script may call its check degraded instead. */
export function failsSoftly({ tests, errors }: PlaywrightReport): boolean {
  if (errors.length > 0) return false
  return tests.every(({ outcome, attempts }) => {
    const last = attempts.at(-1)
    if (outcome !== 'unexpected') return outcome !== undefined
    return last?.status === 'failed' && last.errors.length > 0 && areSoft(last)
  })
}

/** An error does not say that it is soft, but its step does: each step stands for one error. */
function areSoft({ steps, errors }: TestAttempt): boolean {
  const soft = steps.flatMap(({ category, title, error }) =>
    category === 'expect' && /\bsoft\b/i.test(title) && error !== undefined ? [error] : [],
  )
  return errors.every(({ message }) => {
    const at = soft.indexOf(message)
    if (at >= 0) soft.splice(at, 1)
    return at >= 0
  })
}
