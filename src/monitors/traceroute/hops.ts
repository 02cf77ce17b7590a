// What the probes of a trace say about its hops: who they are, how fast they answer, how often not.
import { latencyOf, roundedLatency, type Latency } from '../../network/native/round-trips.ts'
import type { Answer, Probe, TraceCourse } from './course.ts'
import type { Refusal } from './answers.ts'
import type { Path } from './path.ts'

/** One hop, as it stands in the result. */
export interface Hop {
  /** Distance from us, from 1. */
  hop: number
  /** Null for a hop that was silent. */
  address: string | null
  /** By PTR look-up. */
  name?: string
  /** Others that answered at the same distance, over other ways. */
  otherAddresses?: string[]
  /** Without those to which a silent router had no answer left; see answer-budget.ts. */
  sent: number
  received: number
  lossPercent: number
  responseTime?: Latency
  /** Why the packets went no further. */
  refusal?: Refusal
  /** The largest packet that the next link takes, as this hop told. Bytes. */
  mtu?: number
}

/** What the probes of a trace say. */
export interface HopReport {
  hops: Hop[]
  path: Path
  /** The target's round trips; absent when it did not answer. */
  target?: Latency
  /** Loss of the probes that should have reached the target; 100 when it did not answer. */
  targetLossPercent: number
  /** Loss of all probes. */
  lossPercent: number
  portState?: 'open' | 'closed'
  refusal?: { from: string; refusal: Refusal }
}

type Answered = Probe & { answer: Answer }

/** Puts together what the probes of the course say. */
export function reportHops(course: TraceCourse): HopReport {
  const counted = course.probes.filter(
    ({ state, crowded }) => state === 'answered' || (state === 'silent' && !crowded),
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
    path: pathOf(counted.filter(isAnswered), last, course),
    targetLossPercent: 100,
    lossPercent: lossPercent(counted.length, answered.length),
  }
  describeEnd(report, course, counted)
  return report
}

/** Who refuses may stand anywhere before: the distance of a refusal says nothing about the path. */
function pathOf(answered: readonly Answered[], last: number, course: TraceCourse): Path {
  const path = Array<string | undefined>(last).fill(undefined)
  // One flow's path, as far as it is known; lanes are flows.
  for (const probe of answered.toSorted((one, other) => one.lane - other.lane)) {
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
  // The far probe goes all the way, whatever the distance.
  const arrived = counted.filter(({ ttl, lane, round }) => round < 0 || ttl >= course.endOf(lane))
  report.target = roundTrips(fromTarget)
  report.targetLossPercent = lossPercent(arrived.length, fromTarget.length)
  const told = fromTarget.find(({ answer }) => answer.portState !== undefined)
  if (told?.answer.portState !== undefined) report.portState = told.answer.portState
}

/** A hop of the way that says there is no way on is the last: behind it there is nothing to show. */
function endAtRefusal({ hops, path, refusal }: HopReport): void {
  const at = path.indexOf(refusal?.from)
  const hop = hops[at]
  if (hop === undefined || refusal === undefined) return
  hop.refusal = refusal.refusal
  hops.length = at + 1
}

/** Probes that went farther than the end have asked the end. */
function distanceOf(course: TraceCourse, { ttl, lane }: Probe): number {
  return ttl >= course.endOf(lane) ? course.end : ttl
}

/** The last hop to show: the end, or the last that was asked; the far probe asked the target alone. */
function lastHopOf(course: TraceCourse): number {
  if (course.end < Infinity) return course.end
  const asked = course.probes.filter(({ round, state }) => round >= 0 && state !== 'under-way')
  return asked.reduce((farthest, { ttl }) => Math.max(farthest, ttl), 0)
}

function hopOf(hop: number, probes: readonly Probe[]): Hop {
  // One flow's path is shown, as far as it is known; lanes are flows.
  const answered = probes.filter(isAnswered).toSorted((one, other) => one.lane - other.lane)
  const [address, ...others] = new Set(answered.map(({ answer }) => answer.from))
  const shown: Hop = {
    hop,
    address: address ?? null,
    sent: probes.length,
    received: answered.length,
    lossPercent: lossPercent(probes.length, answered.length),
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

/** Of one answer at least. */
function roundTrips(answered: readonly Answered[]): Latency {
  return roundedLatency(latencyOf(answered.map(({ answer }) => answer.rttMs)) as Latency)
}

function lossPercent(sent: number, received: number): number {
  return sent === 0 ? 0 : ((sent - received) * 100) / sent
}
