// Deadlines, distinguished from the cancellation of a run by the reason of the signal.
import type { EventEmitter } from 'node:events'

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

/** Runs with a signal that is aborted after so many milliseconds, or together with the given one. */
export async function withDeadline<T>(
  signal: AbortSignal,
  ms: number,
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  const onAbort = () => controller.abort(signal.reason)
  const timer = setTimeout(() => controller.abort(new DeadlineReached(ms)), ms)
  signal.addEventListener('abort', onAbort)
  if (signal.aborted) onAbort()
  try {
    return await run(controller.signal)
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
  }
}

/** Settles as the work does, or rejects with the signal's reason as soon as it is aborted; the work goes on. */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason as Error)
    const withoutListener =
      <A>(settle: (outcome: A) => void) =>
      (outcome: A) => {
        signal.removeEventListener('abort', onAbort)
        settle(outcome)
      }
    signal.addEventListener('abort', onAbort)
    if (signal.aborted) onAbort()
    work.then(withoutListener(resolve), withoutListener(reject))
  })
}

/** Resolves at the event; rejects with an error of the socket, or the signal's reason. Node's `once` costs far more. */
export function untilEvent(
  socket: EventEmitter,
  event: string,
  signal: AbortSignal,
): Promise<void> {
  const emitted = new Promise<void>((resolve, reject) => {
    socket.once(event, resolve).once('error', reject)
  })
  return untilAborted(emitted, signal)
}
