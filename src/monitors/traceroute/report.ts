// Report of a trace: its hops with their round trips and loss, its path, and the observation made of them.
import { latencyOf, roundedLatency, type Latency } from '../../network/native/round-trips.ts'
import type { Answer, Probe, TraceCourse, Refusal } from './course.ts'
import { type TracerouteRequest, TRACEROUTE_LIMITS } from './definition.ts'
import type { Family } from '../../network/dial.ts'
import type { Traced, TracedMtu, TraceEnd } from './trace.ts'
import { LeastRecentlyUsed } from '../../network/least-recently-used.ts'

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

/** Result of a trace's probes. */
export interface HopReport {
  hops: Hop[]
  path: Path
  /** Round trips of the target; undefined if it did not answer. */
  target?: Latency
  /** Loss of the probes that should have reached the target; 100 when it did not answer. */
  targetLossPercent: number
  /** Loss of all probes. */
  lossPercent: number
  portState?: 'open' | 'closed'
  refusal?: { from: string; refusal: Refusal }
}

type Answered = Probe & { answer: Answer }

/** Makes the report of the course's probes. */
export function reportHops(course: TraceCourse): HopReport {
  const counted = course.probes.filter(
    ({ state }) => state === 'answered' || state === 'unanswered',
  )
  const last = lastHopOf(course)
  const hops: Hop[] = []
  for (let hop = 1; hop <= last; hop++) {
    const own = counted.filter((probe) => distanceOf(course, probe) === hop)
    hops.push(hopOf(hop, own))
  }
  const answered = counted.filter(isAnswered)
  const report: HopReport = {
    hops,
    path: pathOf(answered, last, course),
    targetLossPercent: 100,
    lossPercent: percentLost(counted.length, answered.length),
  }
  describeEnd(report, course, counted)
  return report
}

/** Path of the trace. Refusals are left out: their distance is not that of their sender. */
function pathOf(answered: readonly Answered[], last: number, course: TraceCourse): Path {
  const path = Array<string | undefined>(last).fill(undefined)
  // The path of one flow where possible.
  for (const probe of answered.toSorted((one, other) => one.flow - other.flow)) {
    if (probe.answer.kind === 'refused') continue
    const at = distanceOf(course, probe) - 1
    path[at] ??= probe.answer.from
  }
  return path.slice(0, last)
}

function describeEnd(report: HopReport, course: TraceCourse, counted: readonly Probe[]): void {
  const answered = counted.filter(isAnswered)
  const fromTarget = answered.filter(({ answer }) => answer.kind === 'target')
  const refused = answered.find(({ answer }) => answer.kind === 'refused')
  if (refused?.answer.refusal !== undefined) {
    report.refusal = { from: refused.answer.from, refusal: refused.answer.refusal }
    if (fromTarget.length === 0) endAtRefusal(report)
  }
  if (fromTarget.length === 0) return
  // The far probe reaches the target at any distance.
  const arrived = counted.filter(({ ttl, flow, round }) => round < 0 || ttl >= course.endOf(flow))
  report.target = roundTrips(fromTarget)
  report.targetLossPercent = percentLost(arrived.length, fromTarget.length)
  const withPortState = fromTarget.find(({ answer }) => answer.portState !== undefined)
  if (withPortState?.answer.portState !== undefined)
    report.portState = withPortState.answer.portState
}

/** Makes a hop of the path that refuses the last one shown. */
function endAtRefusal({ hops, path, refusal }: HopReport): void {
  const at = path.indexOf(refusal?.from)
  const hop = hops[at]
  if (hop === undefined || refusal === undefined) return
  hop.refusal = refusal.refusal
  hops.length = at + 1
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
  // The path of one flow where possible.
  const answered = probes.filter(isAnswered).toSorted((one, other) => one.flow - other.flow)
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
  return roundedLatency(latencyOf(answered.map(({ answer }) => answer.rttMs)) as Latency)
}

function percentLost(sent: number, received: number): number {
  return sent === 0 ? 0 : ((sent - received) * 100) / sent
}

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

/** Addresses of the hops in order; undefined for a hop without an answer. */
export type Path = readonly (string | undefined)[]

/** A hop without an answer, in paths as text. */
const SILENT = '*'

/** The path as shown: `10.0.0.1`, `*`, `10.0.2.1`. Hops without an answer at its end are left out. */
export function shownPath(path: Path): string[] {
  const last = path.findLastIndex((address) => address !== undefined)
  return path.slice(0, last + 1).map((address) => address ?? SILENT)
}

/**
 * Hash of the path: 32-bit FNV-1a over the addresses of the hops in order, separated by blanks, `*` for a
 * hop without an answer; such hops at the end are left out. All agents compute the same number for a path.
 */
export function pathHash(path: Path): number {
  let hash = 0x811c9dc5
  for (const byte of Buffer.from(shownPath(path).join(' '))) {
    hash = Math.imul(hash ^ byte, 0x01000193) >>> 0
  }
  return hash
}

/** An address that answered at more than one distance. */
export interface Loop {
  address: string
  /** Distances at which it answered. */
  hops: number[]
}

/** Addresses that occur more than once in the path, in the order of their first hop. */
export function loopsOf(path: Path): Loop[] {
  const places = new Map<string, number[]>()
  for (const [index, address] of path.entries()) {
    if (address === undefined) continue
    const hops = places.get(address)
    if (hops === undefined) places.set(address, [index + 1])
    else hops.push(index + 1)
  }
  return [...places]
    .filter(([, hops]) => hops.length > 1)
    .map(([address, hops]) => ({ address, hops }))
}

/** How the path of a run differs from the one before. */
export interface PathChange {
  pathChanged: boolean
  /** The path before, where it was another one. */
  previousPath?: string[]
}

/** Paths of the last runs. */
export interface PathMemory {
  /** Compares the path with the last one of `key` (monitor and address) and stores it. Undefined without a last one. */
  compare(key: string, path: Path, isReached: boolean): PathChange | undefined
}

/** Makes an empty memory for at most `max` paths. */
export function createPathMemory(max: number = TRACEROUTE_LIMITS.tracePathsMax): PathMemory {
  // One string for each path, since there may be very many.
  const memory = new LeastRecentlyUsed<string, string>(max)
  return {
    compare(key, path, isReached) {
      const now = [isReached, ...path.map((address) => address ?? SILENT)].join(' ')
      const before = memory.get(key)
      memory.set(key, now)
      if (before === undefined) return undefined
      if (!differs(before.split(' '), now.split(' '))) return { pathChanged: false }
      const [, ...addresses] = before.split(' ')
      const previous = addresses.map((address) => (address === SILENT ? undefined : address))
      return { pathChanged: true, previousPath: shownPath(previous) }
    },
  }
}

/** Whether a hop that answered both times has another address, or a target reached both times another distance. */
function differs(one: string[], other: string[]): boolean {
  const [before, now] = [certainHops(one), certainHops(other)]
  if (before.isWhole && now.isWhole && before.hops.length !== now.hops.length) return true
  const isOther = (address: string, at: number) =>
    ![SILENT, address, undefined].includes(now.hops[at]) && address !== SILENT
  return before.hops.some(isOther)
}

/** The hops whose distance is certain: behind one without an answer the target may be nearer. */
function certainHops([isReached, ...hops]: string[]) {
  if (isReached !== 'true') return { hops, isWhole: false }
  const isWhole = hops.at(-2) !== SILENT
  return { hops: isWhole ? hops : hops.slice(0, -1), isWhole }
}
