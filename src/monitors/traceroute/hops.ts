// Evaluation of a trace's probes: addresses, round trips and loss of the hops.
import { latencyOf, roundedLatency, type Latency } from '../../network/native/round-trips.ts'
import type { Answer, Probe, TraceCourse } from './course.ts'
import type { Refusal } from './answers.ts'
import type { Path } from './path.ts'

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
  /** Without unanswered probes to a router whose answer budget was used up; see answer-budget.ts. */
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
    ({ state, isOverBudget }) => state === 'answered' || (state === 'unanswered' && !isOverBudget),
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
  report.targetLossPercent = lossPercent(arrived.length, fromTarget.length)
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

/** Expects at least one answer. */
function roundTrips(answered: readonly Answered[]): Latency {
  return roundedLatency(latencyOf(answered.map(({ answer }) => answer.rttMs)) as Latency)
}

function lossPercent(sent: number, received: number): number {
  return sent === 0 ? 0 : ((sent - received) * 100) / sent
}
