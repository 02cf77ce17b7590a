// An attempt whose verdict is never made by our own delay.
import { startAttempt, type AttemptOrder, type RunningAttempt } from './attempt.ts'
import { isMadeByDelay, withoutVerdict } from './verdict.ts'
import { loopDelay } from './loop-delay.ts'

/**
 * Starts an attempt. Where the delay of our event loop would make it degraded or failed, it is repeated at once,
 * within the same attempt. Where the delay would decide again, it ends with AGENT_OVERLOADED.
 */
export function startUndelayed(order: AttemptOrder): RunningAttempt {
  const { monitor, deadlineMs } = order
  let running: RunningAttempt
  let isCancelled = false

  const once = async () => {
    const loop = loopDelay.watch()
    const beganMs = performance.now()
    running = startAttempt({ ...order, delayMs: () => loop.delayMs() })
    const outcome = await running.outcome
    const times = { elapsedMs: performance.now() - beganMs, deadlineMs, delayMs: loop.delayMs() }
    loop.end()
    return { outcome, times, isByDelay: isMadeByDelay(outcome.observation, monitor, times) }
  }
  const twice = async () => {
    const first = await once()
    const { outcome, times, isByDelay } = first.isByDelay && !isCancelled ? await once() : first
    return isByDelay
      ? { ...outcome, observation: withoutVerdict(outcome.observation, times) }
      : outcome
  }
  return {
    outcome: twice(),
    cancel(reason) {
      isCancelled = true
      running.cancel(reason)
    },
  }
}
