// One trace from its first probe to its end: joins the course, which knows what to ask next, with the
// sockets that ask it.
import type { Failure } from '../../contract/failure.ts'
import type { AnswerBudget } from './answer-budget.ts'
import { connectFailure, placeOf } from '../../network/connect-errors.ts'
import { SystemCallError } from '../../network/native/libc.ts'
import { isDeadline } from '../../network/deadline.ts'
import { TraceCourse, type Answer, type Probe } from './course.ts'
import type { TracePlan } from './plan.ts'
import type { Prober, ProbeListener, Saying } from './prober.ts'

/** Why a trace is over. */
export type TraceEnd =
  | 'reached'
  /** Somebody on the way refused. */
  | 'refused'
  /** As many hops in a row were silent as may be. */
  | 'unknown-hops'
  | 'max-hops'
  /** One router answered again and again. */
  | 'circle'
  /** The deadline came. */
  | 'timeout'
  /** Our own system would not send. */
  | 'not-sent'

/** The largest packet that a link on the way takes, as somebody told. */
export interface TracedMtu {
  bytes: number
  /** Null when our own system said so. */
  from: string | null
}

/** What a trace found, beside what its course knows. */
export interface Traced {
  course: TraceCourse
  end: TraceEnd
  sourcePort: number
  mtus: TracedMtu[]
  /** With the end `not-sent`. */
  failure?: Failure
}

/** Opens the sockets of a trace; throws a SystemCallError or a TargetFailure. */
export type OpenProber = (listener: ProbeListener) => Prober

/** What one trace needs. */
export interface TraceSettings {
  plan: TracePlan
  /** A literal. */
  address: string
  open: OpenProber
  /** Told of every address that answers. */
  onHop: (address: string) => void
  /** Who answered at this distance in an earlier trace. */
  routerAt: (ttl: number) => string | undefined
  budget: AnswerBudget
}

/** How long a router may take to say that a host does not answer it: it asks three times, a second each. */
const LATE_MS = 3500
/** Before the next try when the system has no room for a packet. */
const NO_ROOM_WAIT_MS = 5
/** Packets that are sent again, in another size or for want of room. */
const AGAIN_MAX = 200

/**
 * Traces. When the deadline comes it resolves with what is known by then. Rejects with the signal's reason
 * when it is aborted otherwise, and with what opening the sockets threw. No socket is left in any case.
 */
export function runTrace(settings: TraceSettings, signal: AbortSignal): Promise<Traced> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason as Error)
      return
    }
    const trace = new Trace(settings, (traced) => {
      signal.removeEventListener('abort', onAbort)
      resolve(traced)
    })
    const onAbort = () => {
      if (isDeadline(signal)) return trace.stop()
      trace.close()
      reject(signal.reason as Error)
    }
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      trace.start()
    } catch (error) {
      signal.removeEventListener('abort', onAbort)
      trace.close()
      reject(error)
    }
  })
}

class Trace implements ProbeListener {
  readonly #course: TraceCourse
  readonly #settings: TraceSettings
  readonly #onEnd: (traced: Traced) => void
  readonly #mtus: TracedMtu[] = []
  #prober: Prober | undefined
  #timer: NodeJS.Timeout | undefined
  #again = 0
  #lastSentMs = 0
  #isClosed = false
  #isSending = false

  constructor(settings: TraceSettings, onEnd: (traced: Traced) => void) {
    this.#settings = settings
    this.#course = new TraceCourse(settings.plan.course)
    this.#onEnd = onEnd
  }

  start(): void {
    this.#prober = this.#settings.open(this)
    this.#goOn()
  }

  /** The deadline came. */
  stop(): void {
    this.#isSending = true
    this.#prober?.look()
    // What is under way by then is neither answered nor lost.
    this.#end(this.#isIdle() ? this.#endOfSilence() : 'timeout')
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#prober?.close()
  }

  onAnswer(probe: Probe, answer: Answer): void {
    this.#course.answer(probe, answer)
    const { onHop, budget } = this.#settings
    onHop(answer.from)
    const isError = answer.kind !== 'target' || answer.refusal !== undefined
    if (isError && probe.router !== answer.from) budget.spend(answer.from, performance.now())
    this.#goOn()
  }

  onNameless(saying: Saying, rttMs: (probe: Probe) => number): void {
    const only = this.#course.onlyProbe
    if (only === undefined) this.#course.doubt()
    else this.onAnswer(only, { ...saying, rttMs: rttMs(only) })
  }

  onTooBig(probe: Probe, bytes: number | undefined, from: string | undefined): void {
    if (bytes !== undefined && this.#mtus.every((known) => known.bytes !== bytes)) {
      this.#mtus.push({ bytes, from: from ?? null })
    }
    if (from !== undefined) this.#settings.onHop(from)
    // Whoever finds everything too large is not asked for ever.
    if (this.#again++ < AGAIN_MAX) this.#course.withdraw(probe)
    this.#goOn()
  }

  /** Sends what may be sent, and sees whether the trace is over. */
  #goOn(): void {
    // Sending may bring answers at once.
    if (this.#isClosed || this.#isSending) return
    this.#isSending = true
    const hasRoom = this.#send()
    this.#isSending = false
    if (this.#isClosed) return
    const nowMs = performance.now()
    const wakeAtMs = hasRoom ? this.#course.wakeAtMs : nowMs + NO_ROOM_WAIT_MS
    if (wakeAtMs < Infinity) return this.#wake(wakeAtMs - nowMs)
    const end = this.#endOfSilence()
    const isSilent = this.#course.farthest < this.#settings.plan.course.maxHops
    const lateMs = this.#lastSentMs + LATE_MS - nowMs
    const mayBeLate = (end === 'unknown-hops' || end === 'max-hops') && isSilent && lateMs > 0
    if (mayBeLate) this.#wake(lateMs)
    else this.#end(end)
  }

  /** False when the system has no room. */
  #send(): boolean {
    const prober = this.#prober as Prober
    // A busy agent may be told of answers late; they were not.
    if (this.#course.wakeAtMs <= performance.now()) prober.look()
    this.#course.expire(performance.now())
    for (let nowMs = performance.now(); ; nowMs = performance.now()) {
      const probe = this.#course.take(nowMs)
      if (probe === undefined) return true
      this.#charge(probe, nowMs)
      try {
        if (!prober.send(probe)) {
          if (this.#again++ < AGAIN_MAX) this.#course.withdraw(probe)
          return false
        }
      } catch (error) {
        this.#refusedBySystem(probe, error)
        return true
      }
      this.#lastSentMs = nowMs
    }
  }

  /** Counts the probe with the answers that its router has left, where that is known. */
  #charge(probe: Probe, nowMs: number): void {
    const { address, budget, routerAt, plan } = this.#settings
    const onTheWay = () => this.#course.addressAt(probe.ttl) ?? routerAt(probe.ttl)
    const router = probe.round < 0 ? address : onTheWay()
    // What the target itself answers is an error, and limited, only where the probe is a datagram.
    if (router === undefined || (router === address && plan.protocol !== 'UDP')) return
    probe.router = router
    probe.crowded = !budget.spend(router, nowMs)
  }

  /** Our own system would not send the probe: that is the end, and neither hop nor target has to do with it. */
  #refusedBySystem(probe: Probe, error: unknown): void {
    if (!(error instanceof SystemCallError)) throw error
    this.#course.withdraw(probe)
    const { address, plan } = this.#settings
    const place = plan.port === 0 ? address : placeOf(address, plan.port)
    this.#end('not-sent', connectFailure(error, place))
  }

  #wake(inMs: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#goOn(), Math.max(0, Math.ceil(inMs)))
  }

  #isIdle(): boolean {
    return this.#course.wakeAtMs === Infinity && this.#lastSentMs > 0
  }

  #endOfSilence(): TraceEnd {
    const course = this.#course
    if (course.isReached) return 'reached'
    if (course.isRefused) return 'refused'
    if (course.isCircle) return 'circle'
    const { maxHops, unknownHopsMax } = this.#settings.plan.course
    return course.farthest + unknownHopsMax > maxHops ? 'max-hops' : 'unknown-hops'
  }

  #end(end: TraceEnd, failure?: Failure): void {
    if (this.#isClosed) return
    const sourcePort = this.#prober?.sourcePort ?? 0
    this.close()
    const traced: Traced = { course: this.#course, end, sourcePort, mtus: this.#mtus }
    if (failure !== undefined) traced.failure = failure
    this.#onEnd(traced)
  }
}
