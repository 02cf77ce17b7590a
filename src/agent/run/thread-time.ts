// Thread meter: how long this thread ran or waited for a processor, which distinguishes busy from stopped.
import { openSync, readSync } from 'node:fs'

/** The numbers of the file are below 2^64. */
const SCHEDSTAT_BYTES_MAX = 64

/**
 * Makes a meter of this thread: the time that it ran, and that it waited for a processor. Milliseconds, from
 * an arbitrary moment on. Where the system does not count the waiting, it is left out.
 */
export function createThreadMeter(): () => number {
  const buffer = Buffer.alloc(SCHEDSTAT_BYTES_MAX)
  let file: number
  try {
    file = openSync('/proc/thread-self/schedstat', 'r')
  } catch {
    return ranMs
  }
  return () => {
    const text = buffer.toString('latin1', 0, readSync(file, buffer, 0, buffer.length, 0))
    const [ranNs, waitedNs] = text.split(' ').map(Number)
    // Without the account of the scheduler both are 0.
    if (ranNs === undefined || waitedNs === undefined || ranNs === 0) return ranMs()
    return (ranNs + waitedNs) / 1e6
  }
}

function ranMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}
