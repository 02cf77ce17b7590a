// How the end of an attempt's time is told from its being cancelled, by the reason of the signal.

/** The reason with which the runner aborts an attempt whose time is up. */
export class DeadlineReached extends Error {
  readonly deadlineMs: number

  constructor(deadlineMs: number) {
    super(`no result within ${deadlineMs} ms`)
    this.name = 'DeadlineReached'
    this.deadlineMs = deadlineMs
  }
}

/** Whether the signal was aborted because time is up (and not because somebody cancelled the run). */
export function isDeadline(signal: AbortSignal): boolean {
  return signal.reason instanceof DeadlineReached
}
