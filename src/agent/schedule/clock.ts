// The agent's clock: this machine's wall clock, or a remote one that is followed in its place. Either can be
// set, and can stand still while the machine sleeps; slots must neither come twice nor wait for hours because of it.
import { uptime } from 'node:os'
import type { Instant } from '../../contract/job.ts'
import { openSync, readSync } from 'node:fs'

/** The followed clock differs from ours by more than drift and measuring explain. */
export interface ClockJump {
  /** Milliseconds; positive: it went forward (set, or the machine slept). */
  byMs: number
  /** Whether our clock followed at once; otherwise it runs slower until both agree. */
  isStep: boolean
}

export interface Clock {
  /** Milliseconds since the epoch. On this machine's own clock never less than before. */
  now(): Instant
  /** Milliseconds of a clock that only measures time and is never set. */
  monotonicMs(): number
  /**
   * Compares with the clock that is followed and corrects; call it about every second. Returns a jump, once
   * for each. This machine's own clock, set back, is waited for: we run 1 % slower until it fits.
   */
  observe(): ClockJump | undefined
  /** The clock that is followed minus ours, as last observed. Milliseconds. */
  offsetMs(): number
  /** How long the machine has slept since the clock was made, give or take some 20 ms. */
  sleptMs(): number
  /** Time that this thread ran or waited for a processor, from an arbitrary moment on. */
  busyMs(): number
  /** How far `now()` may be off the remote clock, at most. Milliseconds; undefined: nobody knows. */
  uncertaintyMs(): number | undefined
  /**
   * A remote clock shows `instant` now, give or take `uncertaintyMs`, and is followed from now on in place of
   * this machine's: setting that moves nothing. A difference that uncertainty explains, that of what was
   * followed before included, was our error: it is corrected at once and is no jump. A sample above
   * `UNCERTAINTY_MS_MAX` is left out while our time lies within it, and so is one that is less certain than what
   * is followed and agrees with it. Without `uncertaintyMs` nobody knows how good it is.
   */
  follow(instant: Instant, uncertaintyMs?: number): void
}

/** The clocks of the machine, to be replaced in tests. */
export interface MachineClocks {
  wallMs(): number
  monotonicMs(): number
  /** Since the machine was started, sleep included, which the monotonic clock leaves out. */
  uptimeMs(): number
  /** Of the thread that reads it: time that it ran or waited for a processor. */
  busyMs(): number
}

/** A less certain sample does not move a clock that lies within it. */
export const UNCERTAINTY_MS_MAX = 500
/** How fast two clocks may drift apart; ordinary ones stay below. */
const DRIFT = 50e-6
/** Unexplained differences up to here are drift and are slewed away. */
const JUMP_MS = 500
/** Our own errors up to here are slewed away, too, so that time hardly ever steps back. */
const ERROR_MS = 10
/** How much faster or slower we run at most while slewing. */
const SLEW_MAX = 0.01
/** Small differences are slewed away over about this time, so that we do not swing around the goal. */
const SLEW_OVER_MS = 10_000

let threadMeter: (() => number) | undefined

const machine: MachineClocks = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  uptimeMs: () => uptime() * 1000,
  busyMs: () => (threadMeter ??= createThreadMeter())(),
}

/** Makes a clock that is anchored at the wall clock of this moment. */
export function createClock(clocks: MachineClocks = machine): Clock {
  let anchorWall = clocks.wallMs()
  let anchorMonotonic = clocks.monotonicMs()
  let rate = 1
  let followed: RemoteClock | undefined
  let offsetMs = 0
  let isSetBackReported = false
  // The two run apart only while the machine sleeps.
  const apartMs = () => clocks.uptimeMs() - clocks.monotonicMs()
  const firstApartMs = apartMs()

  const now = (): Instant => anchorWall + (clocks.monotonicMs() - anchorMonotonic) * rate

  const anchor = (instant: Instant, newRate: number) => {
    anchorWall = instant
    anchorMonotonic = clocks.monotonicMs()
    rate = newRate
  }

  return {
    now,
    monotonicMs: () => clocks.monotonicMs(),
    offsetMs: () => offsetMs,
    sleptMs: () => apartMs() - firstApartMs,
    busyMs: () => clocks.busyMs(),
    uncertaintyMs() {
      const uncertaintyMs = followed?.uncertaintyMs() ?? Infinity
      if (followed === undefined || uncertaintyMs === Infinity) return undefined
      return uncertaintyMs + Math.abs(followed.now() - now())
    },
    follow(instant, uncertaintyMs) {
      const errorMs = Math.abs(instant - now())
      const isVague = uncertaintyMs !== undefined && uncertaintyMs > UNCERTAINTY_MS_MAX
      if (isVague && errorMs <= uncertaintyMs) return
      const boundMs = uncertaintyMs ?? Infinity
      const beforeMs = followed?.uncertaintyMs() ?? Infinity
      const movedMs = Math.abs(instant - (followed?.now() ?? -Infinity))
      if (boundMs > beforeMs && movedMs <= boundMs + beforeMs) return
      followed = remoteClock(instant, boundMs, clocks)
      const isExplained = errorMs <= beforeMs + boundMs
      if (isExplained && errorMs > ERROR_MS) anchor(instant, 1)
    },
    observe() {
      const ours = now()
      offsetMs = (followed?.now() ?? clocks.wallMs()) - ours
      const isStep = offsetMs > JUMP_MS || (followed !== undefined && offsetMs < -JUMP_MS)
      if (isStep) {
        const byMs = offsetMs
        anchor(ours + byMs, 1)
        offsetMs = 0
        isSetBackReported = false
        return { byMs, isStep }
      }
      anchor(ours, 1 + Math.max(-SLEW_MAX, Math.min(SLEW_MAX, offsetMs / SLEW_OVER_MS)))
      const isSetBack = offsetMs < -JUMP_MS
      const isNews = isSetBack && !isSetBackReported
      isSetBackReported = isSetBack
      return isNews ? { byMs: offsetMs, isStep } : undefined
    },
  }
}

/** A remote clock, as far as it is known. */
interface RemoteClock {
  now(): Instant
  /** How far off that may be, at most. Milliseconds. */
  uncertaintyMs(): number
}

/** A clock that shows `instant` now and continues while the machine sleeps. */
function remoteClock(instant: Instant, uncertaintyMs: number, clocks: MachineClocks): RemoteClock {
  const [monotonicMs, uptimeMs] = [clocks.monotonicMs(), clocks.uptimeMs()]
  const passedMs = () => clocks.monotonicMs() - monotonicMs
  // The time since the start of the machine is coarse.
  const sleptMs = () => {
    const ms = clocks.uptimeMs() - uptimeMs - passedMs()
    return ms > JUMP_MS ? ms : 0
  }
  return {
    now: () => instant + passedMs() + sleptMs(),
    uncertaintyMs: () => uncertaintyMs + passedMs() * DRIFT + (sleptMs() > 0 ? JUMP_MS : 0),
  }
}

/** Text of a clock jump, for the log. */
export function jumpText({ byMs, isStep }: ClockJump): string {
  if (byMs > 0) return 'the clock went forward, or the machine slept'
  if (isStep) return 'the platform’s clock was set back; the agent follows it'
  return 'the clock was set back; the timetable runs slower until it matches'
}

/** The numbers of the file are below 2^64. */
const SCHEDSTAT_BYTES_MAX = 64

/**
 * Makes a meter of this thread: the time that it ran, and that it waited for a processor. Milliseconds, from
 * an arbitrary moment on. Where the system does not count the waiting, it is left out.
 */
function createThreadMeter(): () => number {
  const buffer = Buffer.alloc(SCHEDSTAT_BYTES_MAX)
  let file: number
  try {
    file = openSync('/proc/thread-self/schedstat', 'r')
  } catch {
    return ranMs
  }
  return () => {
    const text = buffer.toString('latin1', 0, readSync(file, buffer, 0, buffer.length, 0))
    const [ranNs, waitedNs] = text.split(' ').map(Number)
    // Without the account of the scheduler both are 0.
    if (ranNs === undefined || waitedNs === undefined || ranNs === 0) return ranMs()
    return (ranNs + waitedNs) / 1e6
  }
}

function ranMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}
