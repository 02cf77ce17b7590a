// The course of one trace, without a socket: which hop is asked next, how long for an answer is waited,
// and when it is over. All times come from outside, in milliseconds of one clock.
//
// A lane is one flow of packets: same addresses, same ports, so that every router with several ways to
// the target sends all of them the same way. UDP and ICMP have one lane with many probes under way in it;
// the kernel lets a TCP flow have one connection at a time, so there each round of probes is a lane.
import type { Refusal } from './answers.ts'

/** An answer to one probe. */
export interface Answer {
  /** `target`: the destination itself; `hop`: a router on the way; `refused`: somebody says it ends here. */
  kind: 'hop' | 'target' | 'refused'
  from: string
  rttMs: number
  refusal?: Refusal
  portState?: 'open' | 'closed'
}

/** One probe that was sent. */
export interface Probe {
  readonly ttl: number
  readonly lane: number
  /** Which of the lane's probes to this hop it is, from 0; -1 for the far probe. */
  readonly round: number
  readonly sentAtMs: number
  /** Who is to answer, where that could be known when it was sent. */
  router?: string
  /** Whether that router had been asked so often that its silence would say nothing. */
  crowded: boolean
  /** `withdrawn`: it never left this host, or was sent again in another size; it counts for nothing. */
  state: 'under-way' | 'answered' | 'silent' | 'withdrawn'
  answer?: Answer
}

export interface CourseSettings {
  maxHops: number
  /** Hops in a row that may be silent. */
  unknownHopsMax: number
  probesPerHop: number
  /** Probes share one lane, or each round of them has its own, and so has the far probe. */
  lanes: 'one' | 'each'
  /** How long after a probe the same router is asked again, once it was asked often. Milliseconds. */
  patienceMs: number
}

/** Bounds of the wait for one answer. Milliseconds. */
const WAIT_MIN_MS = 200
const WAIT_MAX_MS = 3000
/** With a lane for each: before the kernel sends a SYN again, which would make its time a riddle. */
const WAIT_ONLY_MAX_MS = 950
/** The wait while the far probe is under way, which will tell how long answers take. */
const WAIT_FIRST_MS = 1000
/** The wait where nobody has ever answered. */
const WAIT_BLIND_MS = 400
/** How much slower than the slowest so far an answer may be. */
const SLOWER_MAX = 3
/** Probes under way to hops of which none has answered yet: so many may reach the target too often. */
const AHEAD_MAX = 4
/** Probes under way in a lane that takes more than one. */
const UNDER_WAY_MAX = 16
/** Between two probes to a hop that does not answer. */
const PAUSE_MS = 50
/** Answers that a router gives at once before its limit bites (Linux: 6, then one a second). */
const ANSWERS_AT_ONCE = 5
/** Hops behind the last that answered which are asked as often as those before. */
const ASKED_BEYOND = 2
/** Distances at which one router answers before the path is taken for a circle without an end. */
const CIRCLES_MAX = 3

interface Lane {
  underWay: number
  /** Probes of the first round that are under way. */
  ahead: number
  /** For each round of probes, the distance that is asked next. */
  next: number[]
  /** What is to be asked again, since its probe was withdrawn. */
  again: Ask[]
  /** The nearest distance at which the trace ends in this lane. */
  end: number
}

/** What to ask next, before it is sent. */
interface Ask {
  ttl: number
  round: number
}

/** One trace under way. */
export class TraceCourse {
  /** All probes in the order in which they were sent. */
  readonly probes: Probe[] = []
  readonly #settings: CourseSettings
  readonly #lanes: Lane[]
  /** Whether the far probe, which goes all the way at once, is still to be sent. */
  #far: boolean
  #farProbe: Probe | undefined
  #answered = 0
  #isReached = false
  #isRefused = false
  /** Whether some router does not say which probe it answers. */
  #isDoubtful = false
  readonly #doubted = new Set<Probe>()
  #circleEnd = Infinity
  #slowestMs = 0
  /** When a router that was asked often may be asked again; set by the last `take`. */
  #readyMs = Infinity

  constructor(settings: CourseSettings) {
    this.#settings = settings
    const { lanes, probesPerHop, maxHops } = settings
    const [count, rounds] = lanes === 'one' ? [1, probesPerHop] : [probesPerHop, 1]
    const lane = (many: number): Lane => ({
      underWay: 0,
      ahead: 0,
      next: Array<number>(many).fill(1),
      again: [],
      end: Infinity,
    })
    this.#lanes = Array.from({ length: count }, () => lane(rounds))
    // It tells early how long an answer may take, and whether there is one to wait for at all.
    this.#far = maxHops > 1
    if (lanes === 'each') this.#lanes.push(lane(0))
  }

  /** The next probe, counted as sent now; undefined when none may be sent. */
  take(nowMs: number): Probe | undefined {
    this.#readyMs = Infinity
    for (const [index, lane] of this.#lanes.entries()) {
      const ask = this.#nextOf(lane, index, nowMs)
      if (ask === undefined) continue
      const probe: Probe = {
        ...ask,
        lane: index,
        sentAtMs: nowMs,
        crowded: false,
        state: 'under-way',
      }
      this.probes.push(probe)
      lane.underWay++
      if (probe.round === 0) lane.ahead++
      if (probe.round < 0) this.#farProbe = probe
      return probe
    }
    return undefined
  }

  /** An answer came. A late one counts as well: until the trace is over, late is not lost. */
  answer(probe: Probe, answer: Answer): void {
    if (probe.state !== 'under-way' && probe.state !== 'silent') return
    this.#land(probe, 'answered')
    probe.answer = answer
    this.#slowestMs = Math.max(this.#slowestMs, answer.rttMs)
    const lane = this.#lanes[probe.lane] as Lane
    if (answer.kind === 'target') this.#isReached = true
    if (answer.kind === 'refused') this.#isRefused = true
    // Who answers the far probe does not say at which distance.
    if (probe.round < 0) return
    if (answer.kind === 'hop') {
      this.#answered = Math.max(this.#answered, probe.ttl)
      this.#noteCircle(answer.from)
    } else {
      lane.end = Math.min(lane.end, probe.ttl)
    }
  }

  /**
   * An answer came that does not say to which probe. Those under way may have been answered: they are
   * asked again once their wait is over, and from now on one at a time, so that it can be known.
   */
  doubt(): void {
    this.#isDoubtful = true
    for (const probe of this.probes) if (probe.state === 'under-way') this.#doubted.add(probe)
  }

  /** The probe that an answer without a name must be to; undefined when it may be to several. */
  get onlyProbe(): Probe | undefined {
    const underWay = this.probes.filter(({ state }) => state === 'under-way')
    return underWay.length === 1 ? underWay[0] : undefined
  }

  /** The probe never left, or came to nothing for its size: it counts for nothing, and is asked again. */
  withdraw(probe: Probe): void {
    if (probe.state !== 'under-way') return
    this.#land(probe, 'withdrawn')
    this.#lanes[probe.lane]?.again.push({ ttl: probe.ttl, round: probe.round })
  }

  /** Gives up the probes whose wait is over. */
  expire(nowMs: number): void {
    const waitMs = this.#waitMs()
    for (const probe of this.probes) {
      if (probe.state !== 'under-way' || probe.sentAtMs + waitMs > nowMs) continue
      if (this.#doubted.delete(probe)) this.withdraw(probe)
      else this.#land(probe, 'silent')
    }
  }

  /** When something may be done without an answer: the next wait is over, or a router may be asked again. */
  get wakeAtMs(): number {
    const waitMs = this.#waitMs()
    let wakeAtMs = this.#readyMs
    for (const { state, sentAtMs } of this.probes) {
      if (state === 'under-way') wakeAtMs = Math.min(wakeAtMs, sentAtMs + waitMs)
    }
    return wakeAtMs
  }

  /** Who answered at the distance, as far as it is known by now. */
  addressAt(ttl: number): string | undefined {
    const near = Math.min(ttl, this.end)
    return this.probes.find(
      ({ ttl: asked, round, answer }) => round >= 0 && asked === near && answer !== undefined,
    )?.answer?.from
  }

  /** Whether the target has answered. */
  get isReached(): boolean {
    return this.#isReached
  }

  /** Whether somebody said that packets go no further. */
  get isRefused(): boolean {
    return this.#isRefused
  }

  /** The farthest distance at which a router answered; 0 for none. */
  get farthest(): number {
    return this.#answered
  }

  /** Whether the path goes in a circle without an end. */
  get isCircle(): boolean {
    return this.#circleEnd < Infinity
  }

  /** The distance at which the trace ends: at the target, or where somebody refused. Infinity if unknown. */
  get end(): number {
    // The first lane's path is the one that is shown.
    return this.#lanes.find(({ end }) => end < Infinity)?.end ?? Infinity
  }

  /** The distance from which on probes of a lane came to the end. */
  endOf(lane: number): number {
    const own = this.#lanes[lane]?.end ?? Infinity
    return own < Infinity ? own : this.end
  }

  #land(probe: Probe, state: 'answered' | 'silent' | 'withdrawn'): void {
    const lane = this.#lanes[probe.lane] as Lane
    if (probe.state === 'under-way') {
      lane.underWay--
      if (probe.round === 0) lane.ahead--
    }
    probe.state = state
  }

  #waitMs(): number {
    const longestMs = this.#settings.lanes === 'each' ? WAIT_ONLY_MAX_MS : WAIT_MAX_MS
    return Math.min(longestMs, this.#likelyWaitMs())
  }

  #likelyWaitMs(): number {
    // Near hops say nothing about how long the far ones take; the far probe does.
    if (this.#farProbe?.state === 'under-way') return WAIT_FIRST_MS
    if (this.#slowestMs === 0) return WAIT_BLIND_MS
    return Math.max(WAIT_MIN_MS, this.#slowestMs * SLOWER_MAX)
  }

  /** The farthest distance that is worth asking. */
  #limitOf(index: number): number {
    const { maxHops, unknownHopsMax } = this.#settings
    // Behind somebody who refuses there is nobody to be found.
    const silent = this.#isRefused ? Math.min(unknownHopsMax, ASKED_BEYOND) : unknownHopsMax
    // A target that answers is somewhere; only for one that does not is the search cut short.
    const unknown = this.#isReached ? Infinity : this.#answered + silent
    return Math.min(maxHops, unknown, this.#circleEnd, this.endOf(index))
  }

  #nextOf(lane: Lane, index: number, nowMs: number): Ask | undefined {
    const isOnly = this.#settings.lanes === 'each'
    if (lane.underWay >= (isOnly || this.#isDoubtful ? 1 : UNDER_WAY_MAX)) return undefined
    if (this.#far && index === this.#lanes.length - 1) {
      this.#far = false
      return { ttl: this.#settings.maxHops, round: -1 }
    }
    const again = lane.again.pop()
    if (again !== undefined) return again
    const limit = this.#limitOf(index)
    for (let round = 0; round < lane.next.length; round++) {
      if (round === 0 && lane.ahead >= AHEAD_MAX) continue
      let ttl = lane.next[round] as number
      if (ttl === limit && this.#hasEnough(limit)) ttl = lane.next[round] = limit + 1
      if (ttl > limit || !this.#isReady(index, ttl, round, nowMs)) continue
      lane.next[round] = ttl + 1
      return { ttl, round }
    }
    return isOnly && index === 0 ? this.#gapOf(limit) : undefined
  }

  /** Whether the hop may be asked: the lane's last probe to it was answered, or is long enough ago. */
  #isReady(index: number, ttl: number, round: number, nowMs: number): boolean {
    if (round === 0) return true
    // Silence behind the last answer is asked once: it is mostly the end of all answers.
    if (this.end === Infinity && ttl > this.#answered + ASKED_BEYOND) return false
    const last = this.probes.findLast((probe) => probe.lane === index && probe.ttl === ttl)
    if (last === undefined) return false
    const isUnderWay = last.state === 'under-way'
    // All behind the last answer may be the target, only slow.
    if (isUnderWay && this.#farProbe?.state === 'under-way') return false
    const isOften = round >= ANSWERS_AT_ONCE
    const pauseMs = isUnderWay ? PAUSE_MS : 0
    const readyMs = last.sentAtMs + (isOften ? this.#settings.patienceMs : pauseMs)
    if (readyMs <= nowMs) return true
    this.#readyMs = Math.min(this.#readyMs, readyMs)
    return false
  }

  /** Probes that went beyond the target count for it: it need not be asked as often as other hops. */
  #hasEnough(limit: number): boolean {
    if (limit !== this.end) return false
    const arrived = this.probes.filter(
      ({ ttl, lane, state }) => ttl >= this.endOf(lane) && state !== 'withdrawn',
    )
    return arrived.length >= this.#settings.probesPerHop
  }

  /**
   * A hop that was silent in the first lane and answered in another is asked in the first again: what is
   * shown is one flow's path, as far as it can be known.
   */
  #gapOf(limit: number): Ask | undefined {
    for (let ttl = 1; ttl <= limit; ttl++) {
      const asked = this.probes.filter((probe) => probe.ttl === ttl && probe.state !== 'withdrawn')
      const own = asked.filter(({ lane }) => lane === 0)
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
