// Measures how long a test's own process takes, without the time in which a busy machine does not let it run.

/** A longer pause between two ticks was the machine's. */
const PAUSE_MS_MAX = 5

/**
 * Starts; what it returns stops and says the milliseconds: those that the process worked, and those that it
 * waited while it could have gone on. Not for what other processes do.
 */
export function startStopwatch(): () => number {
  const beganMs = performance.now()
  const beganCpu = process.cpuUsage()
  let [lastMs, waitedMs] = [beganMs, 0]
  const tick = () => {
    const nowMs = performance.now()
    waitedMs += Math.min(nowMs - lastMs, PAUSE_MS_MAX)
    lastMs = nowMs
  }
  const timer = setInterval(tick, 1).unref()
  return () => {
    clearInterval(timer)
    tick()
    const { user, system } = process.cpuUsage(beganCpu)
    return Math.min(lastMs - beganMs, waitedMs + (user + system) / 1000)
  }
}
