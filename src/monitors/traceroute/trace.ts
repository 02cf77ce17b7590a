// One trace from its first probe to its end: connects the course, which chooses the next probe, with the
// sockets that send it.
import type { Failure } from '../../contract/failure.ts'
import { connectFailure, placeOf } from '../../network/connect-errors.ts'
import { SystemCallError } from '../../network/native/system-call-error.ts'
import { isDeadline } from '../../network/deadline.ts'
import { TraceCourse, type CourseSettings, type Probe } from './course.ts'
import {
  roundTripMs,
  type Prober,
  type ProbeListener,
  type ProbeSettings,
  type UntimedAnswer,
} from './prober.ts'
import type { TracerouteCode } from './definition.ts'
import { loadNative, type Native } from '../../network/native/native.ts'
import { targetFailure } from '../../network/target-failure.ts'
import { ConnectionProber } from './connections.ts'
import { openDatagramProber } from './datagrams.ts'

/** Why a trace is over. */
export type TraceEnd =
  | 'reached'
  /** A host on the path refused. */
  | 'refused'
  /** Too many hops in a row did not answer. */
  | 'unknown-hops'
  | 'max-hops'
  /** Routing loop. */
  | 'circle'
  /** The deadline came. */
  | 'timeout'
  /** The agent's own system refused to send. */
  | 'not-sent'

/** MTU of a link on the path. */
export interface TracedMtu {
  bytes: number
  /** Reporting router; null for the agent's own system. */
  from: string | null
}

/** Result of a trace, in addition to its course. */
export interface Traced {
  course: TraceCourse
  end: TraceEnd
  sourcePort: number
  mtus: TracedMtu[]
  /** With the end `not-sent`. */
  failure?: Failure
}

/** Settings of one trace. */
export interface TraceSettings {
  probes: ProbeSettings
  course: CourseSettings
  /** Called with every address that answers. */
  onHop: (address: string) => void
}

/** Time until a router reports an unreachable host: three ARP or ND requests, a second each. */
const LATE_MS = 3500
/** Pause before the next attempt when the socket buffer is full. */
const NO_ROOM_WAIT_MS = 5
/** Packets sent again, in another size or after a full socket buffer, at most. */
const AGAIN_MAX = 200

/**
 * Runs a trace. At the deadline it resolves with the result so far. Rejects with the signal's reason when
 * it is aborted otherwise, with the error of opening the sockets, and with TargetFailure (TRACE_UNSUPPORTED)
 * where this system cannot trace. Closes its sockets in any case.
 */
export async function runTrace(settings: TraceSettings, signal: AbortSignal): Promise<Traced> {
  const native = await load()
  signal.throwIfAborted()
  const trace = new Trace(settings)
  const onAbort = () => trace.abort(signal)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    return await trace.run(native)
  } finally {
    signal.removeEventListener('abort', onAbort)
    trace.close()
  }
}

class Trace implements ProbeListener {
  readonly #course: TraceCourse
  readonly #settings: TraceSettings
  readonly #ending = Promise.withResolvers<Traced>()
  readonly #mtus: TracedMtu[] = []
  #prober: Prober | undefined
  #timer: NodeJS.Timeout | undefined
  #again = 0
  #lastSentMs = 0
  #isClosed = false
  #isSending = false

  constructor(settings: TraceSettings) {
    this.#settings = settings
    this.#course = new TraceCourse(settings.course)
  }

  run(native: Native): Promise<Traced> {
    const { probes } = this.#settings
    this.#prober =
      probes.protocol === 'TCP'
        ? new ConnectionProber(native, probes, this)
        : openDatagramProber(native, probes, this)
    this.#advance()
    return this.#ending.promise
  }

  abort(signal: AbortSignal): void {
    if (!isDeadline(signal)) return this.#ending.reject(signal.reason)
    this.#isSending = true
    this.#prober?.look()
    // Probes in flight count as neither answered nor lost.
    const isIdle = this.#course.wakeAtMs === Infinity && this.#lastSentMs > 0
    this.#end(isIdle ? this.#endWithoutAnswer() : 'timeout')
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#prober?.close()
  }

  onAnswer(named: Probe | undefined, answer: UntimedAnswer, kernelMs?: number): void {
    const probe = named ?? this.#course.onlyProbe
    if (probe === undefined) return this.#course.doubt()
    this.#course.answer(probe, { ...answer, rttMs: answer.rttMs ?? roundTripMs(probe, kernelMs) })
    this.#settings.onHop(answer.from)
    this.#advance()
  }

  onTooBig(probe: Probe, bytes: number | undefined, from: string | undefined): void {
    if (bytes !== undefined && this.#mtus.every((known) => known.bytes !== bytes)) {
      this.#mtus.push({ bytes, from: from ?? null })
    }
    if (from !== undefined) this.#settings.onHop(from)
    // A router that finds every size too large must not keep the trace going.
    if (this.#again++ < AGAIN_MAX) this.#course.withdraw(probe)
    this.#advance()
  }

  /** Sends the probes that may be sent, and ends the trace when it is over. */
  #advance(): void {
    // Sending may deliver answers synchronously.
    if (this.#isClosed || this.#isSending) return
    this.#isSending = true
    const hasRoom = this.#send()
    this.#isSending = false
    if (this.#isClosed) return
    const nowMs = performance.now()
    const wakeAtMs = hasRoom ? this.#course.wakeAtMs : nowMs + NO_ROOM_WAIT_MS
    if (wakeAtMs < Infinity) return this.#wake(wakeAtMs - nowMs)
    const end = this.#endWithoutAnswer()
    const isSilent = this.#course.farthest < this.#settings.course.maxHops
    const lateMs = this.#lastSentMs + LATE_MS - nowMs
    const mayBeLate = (end === 'unknown-hops' || end === 'max-hops') && isSilent && lateMs > 0
    if (mayBeLate) this.#wake(lateMs)
    else this.#end(end)
  }

  /** False when the socket buffer is full. */
  #send(): boolean {
    const prober = this.#prober as Prober
    // On a busy agent answers may be reported late: read them before probes expire.
    if (this.#course.wakeAtMs <= performance.now()) prober.look()
    this.#course.expire(performance.now())
    for (let nowMs = performance.now(); ; nowMs = performance.now()) {
      const probe = this.#course.nextProbe(nowMs)
      if (probe === undefined) return true
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

  /** Ends the trace when the agent's own system refuses to send; neither hop nor target is the cause. */
  #refusedBySystem(probe: Probe, error: unknown): void {
    if (!(error instanceof SystemCallError)) throw error
    this.#course.withdraw(probe)
    const { address, port } = this.#settings.probes
    this.#end('not-sent', connectFailure(error, port === 0 ? address : placeOf(address, port)))
  }

  #wake(inMs: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#advance(), Math.max(0, Math.ceil(inMs)))
  }

  #endWithoutAnswer(): TraceEnd {
    const course = this.#course
    if (course.isReached) return 'reached'
    if (course.isRefused) return 'refused'
    if (course.isCircle) return 'circle'
    const { maxHops, unknownHopsMax } = this.#settings.course
    return course.farthest + unknownHopsMax > maxHops ? 'max-hops' : 'unknown-hops'
  }

  #end(end: TraceEnd, failure?: Failure): void {
    const sourcePort = this.#prober?.sourcePort ?? 0
    this.close()
    this.#ending.resolve({
      course: this.#course,
      end,
      sourcePort,
      mtus: this.#mtus,
      ...(failure !== undefined && { failure }),
    })
  }
}

async function load(): Promise<Native> {
  try {
    return await loadNative()
  } catch (error) {
    const message = `this system cannot trace: ${(error as Error).message}`
    throw targetFailure<TracerouteCode>('TRACE_UNSUPPORTED', message)
  }
}
