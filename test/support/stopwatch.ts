// Measures the duration of work in the test's own process, without the time in which a busy machine suspends it.

/** A longer pause between two ticks is counted as the machine's. */
const PAUSE_MS_MAX = 5

/**
 * Starts a stopwatch and returns a function that gives the milliseconds so far: working time and idle time of the
 * process. Not for work of other processes.
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
