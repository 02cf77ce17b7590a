// Report of a trace: its hops with their round trips and loss, its path, and the facts that follow from them.
import { latencyOf, type Latency } from '../../network/native/round-trips.ts'
import type { Answer, Probe, TraceCourse, Refusal } from './course.ts'
import type { TracerouteRequest } from './definition.ts'
import type { Family } from '../../network/dial.ts'
import { loopsOf, pathHash, type Loop, type Path, type PathChange } from './path.ts'
import type { TracedMtu, TraceEnd } from './trace.ts'

/** One hop of the result. */
export interface Hop {
  /** Distance from the agent, from 1. */
  hop: number
  /** Null for a hop that did not answer. */
  address: string | null
  /** From the PTR lookup. */
  name?: string
  /** Other addresses that answered at the same distance, on other paths. */
  otherAddresses?: string[]
  sent: number
  received: number
  lossPercent: number
  responseTime?: Latency
  /** ICMP error that ended the path here. */
  refusal?: Refusal
  /** MTU of the next link, as reported by this hop. Bytes. */
  mtu?: number
}

/** Facts that follow from the probes and their answers. */
export interface ProbeFacts {
  reached: boolean
  /** Of a TCP or UDP port that was reached. */
  portState?: 'open' | 'closed'
  /** Distance of the target, or of the last hop that answered. */
  hopCount: number
  hops: Hop[]
  /** Round trips to the target. */
  responseTime?: Latency
  /** Loss of the probes that should have reached the target; 100 when it did not answer. */
  targetLossPercent: number
  /** Loss of all probes to all hops. */
  lossPercent: number
  /** Eight hexadecimal digits; see `pathHash`. */
  pathHash: string
  loops?: Loop[]
  /** Smallest MTU reported on the path. */
  mtu?: TracedMtu
}

/** Observation of a trace. */
export interface TraceObserved extends ProbeFacts, Partial<PathChange> {
  protocol: TracerouteRequest['protocol']
  port?: number
  address: string
  family: Family
  /** Source port of the packets; the identifier of ICMP echoes. */
  sourcePort: number
  end: TraceEnd
  phases: { dnsMs: number; traceMs: number; totalMs: number }
}

/** The first ICMP error that ended a path, and its sender. */
export type Refuser = Refusal & { from: string }

type Answered = Probe & { answer: Answer }

/** Makes the report of the course's probes. */
export function reportOf(course: TraceCourse, mtus: readonly TracedMtu[] = []) {
  // Shows the path of one flow where possible.
  const counted = course.probes
    .filter(({ state }) => state === 'answered' || state === 'unanswered')
    .toSorted((one, other) => one.flow - other.flow)
  const answered = counted.filter(isAnswered)
  const fromTarget = answered.filter(({ answer }) => answer.kind === 'target')
  const length = lastHopOf(course)
  const hops = Array.from({ length }, (_, at) =>
    hopOf(
      at + 1,
      counted.filter((probe) => distanceOf(course, probe) === at + 1),
    ),
  )
  const path = pathOf(answered, length, course)
  const refuser = refuserOf(answered)
  if (refuser !== undefined && fromTarget.length === 0) endAtRefusal(hops, path, refuser)
  const portState = fromTarget.find(({ answer }) => answer.portState !== undefined)?.answer
    .portState
  const loops = loopsOf(path)
  const mtu = mtus.toSorted((one, other) => one.bytes - other.bytes)[0]
  for (const { from, bytes } of mtus) {
    const hop = hops.find(({ address }) => address === from)
    if (hop !== undefined) hop.mtu = bytes
  }
  const facts: ProbeFacts = {
    reached: course.isReached,
    hopCount: course.isReached && course.end < Infinity ? course.end : course.farthest,
    hops,
    targetLossPercent: targetLossOf(course, counted, fromTarget.length),
    lossPercent: percentLost(counted.length, answered.length),
    pathHash: pathHash(path).toString(16).padStart(8, '0'),
    ...(portState !== undefined && { portState }),
    ...(fromTarget.length > 0 && { responseTime: roundTrips(fromTarget) }),
    ...(loops.length > 0 && { loops }),
    ...(mtu !== undefined && { mtu }),
  }
  return { facts, path, refuser }
}

/** Path of the trace. Refusals are left out: their distance is not that of their sender. */
function pathOf(answered: readonly Answered[], length: number, course: TraceCourse): Path {
  const path = Array<string | undefined>(length).fill(undefined)
  for (const probe of answered) {
    const at = distanceOf(course, probe) - 1
    if (probe.answer.kind !== 'refused' && at < length) path[at] ??= probe.answer.from
  }
  return path
}

function refuserOf(answered: readonly Answered[]): Refuser | undefined {
  const found = answered.find(({ answer }) => answer.kind === 'refused')?.answer
  return found?.refusal === undefined ? undefined : { ...found.refusal, from: found.from }
}

/** Makes a hop of the path that refuses the last one shown. */
function endAtRefusal(hops: Hop[], path: Path, { from, name, mark }: Refuser): void {
  const at = path.indexOf(from)
  const hop = hops[at]
  if (hop === undefined) return
  hop.refusal = { name, mark }
  hops.length = at + 1
}

/** Loss of the probes that should have reached the target. */
function targetLossOf(course: TraceCourse, counted: readonly Probe[], received: number): number {
  if (received === 0) return 100
  // The far probe reaches the target at any distance.
  const arrived = counted.filter(({ ttl, flow, round }) => round < 0 || ttl >= course.endOf(flow))
  return percentLost(arrived.length, received)
}

/** Distance of the probed hop: probes sent beyond the end reach the end. */
function distanceOf(course: TraceCourse, { ttl, flow }: Probe): number {
  return ttl >= course.endOf(flow) ? course.end : ttl
}

/** Last hop to show: the end, or the last hop probed. The far probe does not count. */
function lastHopOf(course: TraceCourse): number {
  if (course.end < Infinity) return course.end
  const asked = course.probes.filter(({ round, state }) => round >= 0 && state !== 'under-way')
  return asked.reduce((farthest, { ttl }) => Math.max(farthest, ttl), 0)
}

function hopOf(hop: number, probes: readonly Probe[]): Hop {
  const answered = probes.filter(isAnswered)
  const [address, ...others] = new Set(answered.map(({ answer }) => answer.from))
  const shown: Hop = {
    hop,
    address: address ?? null,
    sent: probes.length,
    received: answered.length,
    lossPercent: percentLost(probes.length, answered.length),
  }
  if (others.length > 0) shown.otherAddresses = others
  if (answered.length > 0) shown.responseTime = roundTrips(answered)
  const refusal = answered.find(({ answer }) => answer.refusal !== undefined)?.answer
  if (refusal?.kind === 'refused' && refusal.refusal !== undefined) shown.refusal = refusal.refusal
  return shown
}

function isAnswered(probe: Probe): probe is Answered {
  return probe.state === 'answered'
}

/** Expects at least one answer. */
function roundTrips(answered: readonly Answered[]): Latency {
  return latencyOf(answered.map(({ answer }) => answer.rttMs)) as Latency
}

function percentLost(sent: number, received: number): number {
  return sent === 0 ? 0 : ((sent - received) * 100) / sent
}
