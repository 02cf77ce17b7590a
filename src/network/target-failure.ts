// How the steps of a monitor report what went wrong with the target: thrown inside the monitor, caught at
// its end and turned into data. Everything else that is thrown is a fault of ours or a cancelled run.
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

/** Makes the error for one failure; see `failure` for the arguments. */
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
  startTls: { code: 'TIMEOUT_STARTTLS', doing: 'asking for TLS by STARTTLS' },
  tls: { code: 'TIMEOUT_TLS', doing: 'in the TLS handshake' },
  send: { code: 'TIMEOUT_SEND', doing: 'sending' },
  firstByte: { code: 'TIMEOUT_FIRST_BYTE', doing: 'waiting for the first byte' },
  download: { code: 'TIMEOUT_DOWNLOAD', doing: 'reading the answer' },
}

/** Whether `failureOf` makes a failure of the error, rather than throw it on. */
export function isFailure(error: unknown): boolean {
  return error instanceof TargetFailure || error instanceof DeadlineReached
}

/**
 * The failure that a caught error stands for: the one that it carries, or the time-out of the phase in
 * which the deadline came. Any other error (a cancelled run, a fault of ours) is thrown on.
 */
export function failureOf(error: unknown, progress: Progress): Failure {
  if (error instanceof TargetFailure) return error.failure
  if (!(error instanceof DeadlineReached)) throw error
  const { code, doing } = TIMEOUTS[progress.phase]
  return failure(code, `no result within ${error.deadlineMs} ms: time ran out ${doing}`, {
    deadlineMs: error.deadlineMs,
  })
}
