// Probe scheduling of one trace, without a socket: which hop to probe next, how long to wait for an answer,
// and when the trace ends. The caller passes all times, in milliseconds of one clock.
//
// A flow is a sequence of packets with the same addresses and ports, so that load-balancing routers send
// all of them the same way. UDP and ICMP use one flow with many probes in flight. The kernel allows a TCP
// flow one connection at a time, so each round of TCP probes is a flow of its own.

import type { IcmpMeaning } from '../../network/native/icmp-meaning.ts'

/** Why a packet was not delivered, as reported by a router or the target. */
export type Refusal = Pick<IcmpMeaning, 'name' | 'mark'>

/** An answer to one probe. */
export interface Answer {
  /** `target`: the destination; `hop`: a router on the way; `refused`: an ICMP error that ends the path. */
  kind: 'hop' | 'target' | 'refused'
  from: string
  rttMs: number
  refusal?: Refusal
  portState?: 'open' | 'closed'
}

/** One probe that was sent. */
export interface Probe {
  readonly ttl: number
  readonly flow: number
  /** Index of the probe among the flow's probes to this hop, from 0; -1 for the far probe. */
  readonly round: number
  readonly sentAtMs: number
  /** When it was sent, by the kernel's clock; set by its sender. */
  clockMs: number
  /** `withdrawn`: not sent, or sent again in another size; it does not count. */
  state: 'under-way' | 'answered' | 'unanswered' | 'withdrawn'
  answer?: Answer
}

export interface CourseSettings {
  maxHops: number
  /** Hops in a row without an answer, at most. */
  unknownHopsMax: number
  probesPerHop: number
  /** One flow for all probes, or one for each round and one for the far probe. */
  flows: 'one' | 'each'
  /** Pause between two probes to a router that was probed often. Milliseconds. */
  patienceMs: number
}

/** Bounds of the wait for one answer. Milliseconds. */
const WAIT_MIN_MS = 200
const WAIT_MAX_MS = 3000
/** One flow for each round: shorter than the kernel's SYN retransmission, which would blur the round trip. */
const WAIT_ONLY_MAX_MS = 950
/** Wait while the far probe, which measures the slowest answer, is in flight. */
const WAIT_FIRST_MS = 1000
/** Wait while there is no answer yet. */
const WAIT_BLIND_MS = 400
/** Factor of the wait over the slowest answer so far. */
const SLOWER_MAX = 3
/** Probes in flight to hops without an answer; more could reach the target too often. */
const AHEAD_MAX = 4
/** Probes in flight in a shared flow. */
const UNDER_WAY_MAX = 16
/** Pause between two probes to a hop that does not answer. */
const PAUSE_MS = 50
/** Answers that a router sends before its rate limit applies (Linux: 6, then one a second). */
const ANSWERS_AT_ONCE = 5
/** Factor of the pause before a recheck: a Linux router without a route pays twice, and counts in ticks of its clock. */
const RECHECK_PATIENCE = 2.1
/** Hops behind the last answer that are probed as often as those before. */
const ASKED_BEYOND = 2
/** Distances at which one router answers before the path counts as a routing loop. */
const CIRCLES_MAX = 3

interface Flow {
  underWay: number
  /** Probes of the first round in flight. */
  ahead: number
  /** For each round of probes, the next distance. */
  next: number[]
  /** Withdrawn probes, to be sent again. */
  again: Ask[]
  /** Nearest distance at which the trace ends in this flow. */
  end: number
}

/** The next probe, before it is sent. */
interface Ask {
  ttl: number
  round: number
}

/** Probe scheduling of one trace. */
export class TraceCourse {
  /** All probes in the order in which they were sent. */
  readonly probes: Probe[] = []
  readonly #settings: CourseSettings
  readonly #flows: Flow[]
  readonly #isEach: boolean
  /** Whether the far probe, with the largest time to live, is still to be sent. */
  #far: boolean
  #farProbe: Probe | undefined
  /** The farthest distance at which a router answered; 0 for none. */
  farthest = 0
  /** Whether the target has answered. */
  isReached = false
  /** Whether an ICMP error ended the path. */
  isRefused = false
  /** Whether an answer arrived that names no probe. */
  #isDoubtful = false
  readonly #unattributed = new Set<Probe>()
  #circleEnd = Infinity
  #slowestMs = 0
  /** The nearest silent hop before a refusal that was probed again; 0 for none. */
  #rechecked = 0
  /** When a router that was probed often may be probed again; set by the last `take`. */
  #readyMs = Infinity

  constructor(settings: CourseSettings) {
    this.#settings = settings
    const { flows, probesPerHop, maxHops } = settings
    this.#isEach = flows === 'each'
    const [count, rounds] = this.#isEach ? [probesPerHop, 1] : [1, probesPerHop]
    const flow = (many: number): Flow => ({
      underWay: 0,
      ahead: 0,
      next: Array<number>(many).fill(1),
      again: [],
      end: Infinity,
    })
    this.#flows = Array.from({ length: count }, () => flow(rounds))
    // The far probe shows early whether the target answers, and how fast.
    this.#far = maxHops > 1
    if (this.#isEach) this.#flows.push(flow(0))
  }

  /** Returns the next probe and counts it as sent; undefined when none may be sent. */
  nextProbe(nowMs: number): Probe | undefined {
    this.#readyMs = Infinity
    for (const [index, flow] of this.#flows.entries()) {
      const ask = this.#nextOf(flow, index, nowMs)
      if (ask === undefined) continue
      const probe: Probe = {
        ...ask,
        flow: index,
        sentAtMs: nowMs,
        clockMs: 0,
        state: 'under-way',
      }
      this.probes.push(probe)
      flow.underWay++
      if (probe.round === 0) flow.ahead++
      if (probe.round < 0) this.#farProbe = probe
      return probe
    }
    return undefined
  }

  /** Records an answer. A late answer counts until the end of the trace. */
  answer(probe: Probe, answer: Answer): void {
    if (probe.state !== 'under-way' && probe.state !== 'unanswered') return
    this.#land(probe, 'answered')
    probe.answer = answer
    this.#slowestMs = Math.max(this.#slowestMs, answer.rttMs)
    const flow = this.#flows[probe.flow] as Flow
    if (answer.kind === 'target') this.isReached = true
    if (answer.kind === 'refused') this.isRefused = true
    // An answer to the far probe shows no distance.
    if (answer.kind === 'hop' && probe.round >= 0) {
      this.farthest = Math.max(this.farthest, probe.ttl)
      this.#noteCircle(answer.from)
    } else if (probe.round >= 0) {
      flow.end = Math.min(flow.end, probe.ttl)
    }
  }

  /**
   * Whether silent hops lie before a refusal: a router that sends few errors may have refused their probes as well. The
   * packet in its error shows the distance, but the kernel passes on only what follows the IP header.
   */
  get #hasGap(): boolean {
    const next = this.farthest + 1
    return this.isRefused && !this.isReached && next < this.end && next <= this.#limitOf(0)
  }

  /**
   * Records an answer that names no probe. The probes in flight are sent again after their wait; from now
   * on probes are sent one at a time, so that each answer can be attributed.
   */
  doubt(): void {
    this.#isDoubtful = true
    for (const probe of this.probes) if (probe.state === 'under-way') this.#unattributed.add(probe)
  }

  /** The only probe in flight, to which an unattributed answer belongs; undefined for none or several. */
  get onlyProbe(): Probe | undefined {
    const underWay = this.probes.filter(({ state }) => state === 'under-way')
    return underWay.length === 1 ? underWay[0] : undefined
  }

  /** Withdraws a probe that was not sent or was too large: it does not count and is sent again. */
  withdraw(probe: Probe): void {
    if (probe.state !== 'under-way') return
    this.#land(probe, 'withdrawn')
    this.#flows[probe.flow]?.again.push({ ttl: probe.ttl, round: probe.round })
  }

  /** Expires the probes whose wait is over. */
  expire(nowMs: number): void {
    const waitMs = this.#waitMs()
    for (const probe of this.probes) {
      if (probe.state !== 'under-way' || probe.sentAtMs + waitMs > nowMs) continue
      if (this.#unattributed.delete(probe)) this.withdraw(probe)
      else this.#land(probe, 'unanswered')
    }
  }

  /** Time of the next step without an answer: a wait ends, or a router may be probed again. */
  get wakeAtMs(): number {
    const waitMs = this.#waitMs()
    let wakeAtMs = this.#readyMs
    for (const { state, sentAtMs } of this.probes) {
      if (state === 'under-way') wakeAtMs = Math.min(wakeAtMs, sentAtMs + waitMs)
    }
    return wakeAtMs
  }

  /** Whether the path is a routing loop. */
  get isCircle(): boolean {
    return this.#circleEnd < Infinity
  }

  /** Distance at which the trace ends: the target, or a refusal. Infinity if unknown. */
  get end(): number {
    // The result shows the path of the first flow.
    return this.#flows.find(({ end }) => end < Infinity)?.end ?? Infinity
  }

  /** Distance from which probes of a flow reach the end. */
  endOf(flow: number): number {
    const own = this.#flows[flow]?.end ?? Infinity
    return own < Infinity ? own : this.end
  }

  #land(probe: Probe, state: 'answered' | 'unanswered' | 'withdrawn'): void {
    const flow = this.#flows[probe.flow] as Flow
    if (probe.state === 'under-way') {
      flow.underWay--
      if (probe.round === 0) flow.ahead--
    }
    probe.state = state
  }

  #waitMs(): number {
    let waitMs = Math.max(WAIT_MIN_MS, this.#slowestMs * SLOWER_MAX)
    if (this.#slowestMs === 0) waitMs = WAIT_BLIND_MS
    // Round trips of near hops do not bound those of far hops; the far probe's does.
    if (this.#farProbe?.state === 'under-way') waitMs = WAIT_FIRST_MS
    return Math.min(waitMs, this.#isEach ? WAIT_ONLY_MAX_MS : WAIT_MAX_MS)
  }

  /** Farthest distance to probe. */
  #limitOf(index: number): number {
    const { maxHops, unknownHopsMax } = this.#settings
    // Behind a refusal there are no more hops.
    const unanswered = this.isRefused ? Math.min(unknownHopsMax, ASKED_BEYOND) : unknownHopsMax
    // The search for a target that has answered is not cut short.
    const unknown = this.isReached ? Infinity : this.farthest + unanswered
    return Math.min(maxHops, unknown, this.#circleEnd, this.endOf(index))
  }

  #nextOf(flow: Flow, index: number, nowMs: number): Ask | undefined {
    if (flow.underWay >= (this.#isEach || this.#isDoubtful ? 1 : UNDER_WAY_MAX)) return undefined
    if (this.#far && index === this.#flows.length - 1) {
      this.#far = false
      return { ttl: this.#settings.maxHops, round: -1 }
    }
    const again = flow.again.pop()
    if (again !== undefined) return again
    const limit = this.#limitOf(index)
    for (let round = 0; round < flow.next.length; round++) {
      if (round === 0 && flow.ahead >= AHEAD_MAX) continue
      let ttl = flow.next[round] as number
      if (ttl === limit && this.#hasEnough(limit)) ttl = flow.next[round] = limit + 1
      if (ttl > limit || !this.#isReady(index, ttl, round, nowMs)) continue
      flow.next[round] = ttl + 1
      return { ttl, round }
    }
    return index === 0 ? (this.#recheck(nowMs) ?? this.#gapOf(limit)) : undefined
  }

  /** Probes the nearest silent hop before a refusal once more, when its router can answer again. */
  #recheck(nowMs: number): Ask | undefined {
    const ttl = this.farthest + 1
    if (!this.#hasGap || this.#rechecked === ttl) return undefined
    // A probe that was not answered may have cost the router an answer, too.
    const lastMs = this.probes.at(-1)?.sentAtMs ?? nowMs
    const readyMs = lastMs + RECHECK_PATIENCE * this.#settings.patienceMs
    if (readyMs > nowMs) {
      this.#readyMs = Math.min(this.#readyMs, readyMs)
      return undefined
    }
    this.#rechecked = ttl
    return { ttl, round: this.#settings.probesPerHop }
  }

  /** Whether the hop may be probed: the flow's last probe was answered, or is old enough. */
  #isReady(index: number, ttl: number, round: number, nowMs: number): boolean {
    if (round === 0) return true
    // Hops behind the last answer are probed once: usually none of them answers.
    if (this.end === Infinity && ttl > this.farthest + ASKED_BEYOND) return false
    const last = this.probes.findLast((probe) => probe.flow === index && probe.ttl === ttl)
    if (last === undefined) return false
    const isUnderWay = last.state === 'under-way'
    // Any hop behind the last answer may be a slow target.
    if (isUnderWay && this.#farProbe?.state === 'under-way') return false
    const isOften = round >= ANSWERS_AT_ONCE
    const pauseMs = isUnderWay ? PAUSE_MS : 0
    const readyMs = last.sentAtMs + (isOften ? this.#settings.patienceMs : pauseMs)
    if (readyMs <= nowMs) return true
    this.#readyMs = Math.min(this.#readyMs, readyMs)
    return false
  }

  /** Whether the target has enough probes: those sent beyond it count as well. */
  #hasEnough(limit: number): boolean {
    if (limit !== this.end) return false
    const arrived = this.probes.filter(
      ({ ttl, flow, state }) => ttl >= this.endOf(flow) && state !== 'withdrawn',
    )
    return arrived.length >= this.#settings.probesPerHop
  }

  /**
   * Probes a hop that answered in another flow, but not in the first, again in the first: the result shows
   * the path of one flow where possible.
   */
  #gapOf(limit: number): Ask | undefined {
    if (!this.#isEach) return undefined
    for (let ttl = 1; ttl <= limit; ttl++) {
      const asked = this.probes.filter((probe) => probe.ttl === ttl && probe.state !== 'withdrawn')
      const own = asked.filter(({ flow }) => flow === 0)
      if (own.some(({ state }) => state === 'answered')) continue
      if (own.length >= this.#settings.probesPerHop) continue
      if (asked.some(({ state }) => state === 'answered')) return { ttl, round: own.length }
    }
    return undefined
  }

  #noteCircle(from: string): void {
    const distances = new Set<number>()
    for (const { answer, ttl, round } of this.probes) {
      if (round >= 0 && answer?.kind === 'hop' && answer.from === from) distances.add(ttl)
    }
    if (distances.size < CIRCLES_MAX) return
    const last = [...distances].toSorted((one, other) => one - other)[CIRCLES_MAX - 1] as number
    this.#circleEnd = Math.min(this.#circleEnd, last)
  }
}
