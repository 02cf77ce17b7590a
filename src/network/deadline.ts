// Distinguishes the deadline of an attempt from its cancellation, by the reason of the signal.

/** The runner's abort reason for an attempt whose deadline has passed. */
export class DeadlineReached extends Error {
  readonly deadlineMs: number

  constructor(deadlineMs: number) {
    super(`no result within ${deadlineMs} ms`)
    this.name = 'DeadlineReached'
    this.deadlineMs = deadlineMs
  }
}

/** Whether the signal was aborted by the deadline, and not by a cancellation of the run. */
export function isDeadline(signal: AbortSignal): boolean {
  return signal.reason instanceof DeadlineReached
}
