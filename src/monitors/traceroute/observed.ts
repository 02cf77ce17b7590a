// Observation of a traceroute run.
import type { TracerouteRequest } from './definition.ts'
import type { Family } from '../../network/dial.ts'
import type { Latency } from '../../network/native/round-trips.ts'
import type { Hop, HopReport } from './hops.ts'
import { loopsOf, pathHash, type Loop, type PathChange } from './path.ts'
import type { Traced, TracedMtu, TraceEnd } from './trace.ts'

/** Observation of a trace. */
export interface TraceObserved extends Partial<PathChange> {
  protocol: TracerouteRequest['protocol']
  port?: number
  address: string
  family: Family
  /** Source port of the packets; the identifier of ICMP echoes. */
  sourcePort: number
  reached: boolean
  end: TraceEnd
  /** Of a TCP or UDP port that was reached. */
  portState?: 'open' | 'closed'
  /** Distance of the target, or of the last hop that answered. */
  hopCount: number
  hops: Hop[]
  /** Round trips to the target. */
  responseTime?: Latency
  /** Loss of the probes that should have reached the target. */
  targetLossPercent: number
  /** Loss of all probes to all hops. */
  lossPercent: number
  /** Eight hexadecimal digits; see `pathHash`. */
  pathHash: string
  loops?: Loop[]
  /** Smallest MTU reported on the path. */
  mtu?: TracedMtu
  phases: { dnsMs: number; traceMs: number; totalMs: number }
}

/** Results of the probes, without their target. */
export type ProbeObservation = Omit<
  TraceObserved,
  'protocol' | 'port' | 'address' | 'family' | 'phases'
>

/** Builds the observation of the probes. */
export function observationOf(traced: Traced, report: HopReport): ProbeObservation {
  const { course, end, sourcePort, mtus } = traced
  const { hops, path, target, targetLossPercent, lossPercent, portState } = report
  const reached = course.isReached
  const observation: ProbeObservation = {
    sourcePort,
    reached,
    end,
    hopCount: reached && course.end < Infinity ? course.end : course.farthest,
    hops,
    targetLossPercent,
    lossPercent,
    pathHash: pathHash(path).toString(16).padStart(8, '0'),
  }
  if (portState !== undefined) observation.portState = portState
  if (target !== undefined) observation.responseTime = target
  const loops = loopsOf(path)
  if (loops.length > 0) observation.loops = loops
  const mtu = mtus.toSorted((one, other) => one.bytes - other.bytes)[0]
  if (mtu !== undefined) observation.mtu = mtu
  for (const { from, bytes } of mtus) {
    const hop = hops.find(({ address }) => address === from)
    if (hop !== undefined) hop.mtu = bytes
  }
  return observation
}
