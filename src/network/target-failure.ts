// The error with which the steps of a monitor report failures of the target. The monitor catches it at its end and
// turns it into data. All other errors are faults of our own or a cancelled run.
import { failure, type Failure, type FailureCode } from '../contract/failure.ts'
import type { Phase, Progress } from './dial.ts'
import { DeadlineReached } from './deadline.ts'

/** Carries a failure up to the monitor that reports it. Never leaves the monitor. */
export class TargetFailure extends Error {
  readonly failure: Failure

  constructor(failed: Failure) {
    super(failed.message)
    this.name = 'TargetFailure'
    this.failure = failed
  }
}

/** Creates the error for one failure; see `failure` for the arguments. */
export function targetFailure<Own extends string = never>(
  code: FailureCode | NoInfer<Own>,
  message: string,
  details?: Record<string, unknown>,
): TargetFailure {
  return new TargetFailure(failure<Own>(code, message, details))
}

const TIMEOUTS: Record<Phase, { code: FailureCode; doing: string }> = {
  dns: { code: 'TIMEOUT_DNS', doing: 'looking up the name' },
  connect: { code: 'TIMEOUT_CONNECT', doing: 'connecting' },
  proxy: { code: 'TIMEOUT_PROXY', doing: 'waiting for the proxy' },
  startTls: { code: 'TIMEOUT_STARTTLS', doing: 'during STARTTLS' },
  tls: { code: 'TIMEOUT_TLS', doing: 'in the TLS handshake' },
  send: { code: 'TIMEOUT_SEND', doing: 'sending' },
  firstByte: { code: 'TIMEOUT_FIRST_BYTE', doing: 'waiting for the first byte' },
  download: { code: 'TIMEOUT_DOWNLOAD', doing: 'reading the answer' },
}

/** Whether `failureOf` returns a failure for the error and does not rethrow it. */
export function isFailure(error: unknown): error is TargetFailure | DeadlineReached {
  return error instanceof TargetFailure || error instanceof DeadlineReached
}

/**
 * The failure of a caught error: the one that it carries, or the time-out of the current phase at the deadline.
 * Rethrows any other error (a cancelled run, a fault of our own).
 */
export function failureOf(error: unknown, progress: Progress): Failure {
  if (error instanceof TargetFailure) return error.failure
  if (!(error instanceof DeadlineReached)) throw error
  const { code, doing } = TIMEOUTS[progress.phase]
  return failure(code, `no result within ${error.deadlineMs} ms: time ran out ${doing}`, {
    deadlineMs: error.deadlineMs,
  })
}
