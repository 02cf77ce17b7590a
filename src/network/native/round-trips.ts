// Figures of round trips: of a run of echoes, of the hops of a trace.
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
  const count = rttsMs.length
  if (count === 0) return undefined
  let [sum, min, max] = [0, Infinity, 0]
  for (const rtt of rttsMs) {
    sum += rtt
    if (rtt < min) min = rtt
    if (rtt > max) max = rtt
  }
  const avg = sum / count
  let squares = 0
  for (const rtt of rttsMs) squares += (rtt - avg) ** 2
  return { avg, min, max, stdDev: Math.sqrt(squares / count) }
}

/** The figures as results show them. */
export function roundedLatency({ avg, min, max, stdDev }: Latency): Latency {
  return {
    min: toMicroseconds(min),
    avg: toMicroseconds(avg),
    max: toMicroseconds(max),
    stdDev: toMicroseconds(stdDev),
  }
}

/**
 * How much the round-trip time changes from one echo to the next that came back, on average
 * (the mean of |D| of RFC 3550, 6.4.1, without its smoothing over time). Undefined for fewer than two.
 */
export function jitterOf(rttsMs: readonly number[]): number | undefined {
  if (rttsMs.length < 2) return undefined
  let sum = 0
  for (let at = 1; at < rttsMs.length; at++) {
    sum += Math.abs((rttsMs[at] as number) - (rttsMs[at - 1] as number))
  }
  return sum / (rttsMs.length - 1)
}
