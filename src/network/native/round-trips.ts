// Figures of round-trip times, as all types of monitor show them: in milliseconds, exact to the microsecond.
import { toMicroseconds } from '../../contract/schema/duration.ts'

export interface Latency {
  avg: number
  min: number
  max: number
  /** Standard deviation of all of them (not of a sample), like `mdev` of ping. */
  stdDev: number
}

/** The figures of some round-trip times; undefined for none. */
export function latencyOf(rttsMs: readonly number[]): Latency | undefined {
  if (rttsMs.length === 0) return undefined
  const avg = meanOf(rttsMs)
  return {
    min: toMicroseconds(Math.min(...rttsMs)),
    avg: toMicroseconds(avg),
    max: toMicroseconds(Math.max(...rttsMs)),
    stdDev: toMicroseconds(Math.sqrt(meanOf(rttsMs.map((rtt) => (rtt - avg) ** 2)))),
  }
}

/**
 * How much the round-trip time changes from one echo to the next that came back, on average
 * (the mean of |D| of RFC 3550, 6.4.1, without its smoothing over time). Undefined for fewer than two.
 */
export function jitterOf(rttsMs: readonly number[]): number | undefined {
  if (rttsMs.length < 2) return undefined
  const changes = rttsMs.slice(1).map((rtt, at) => Math.abs(rtt - (rttsMs[at] as number)))
  return toMicroseconds(meanOf(changes))
}

function meanOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}
