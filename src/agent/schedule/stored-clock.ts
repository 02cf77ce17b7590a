// Whether the machine's clock is plausible enough to run monitors stored on disk while no platform gives the time.
import { readFileSync } from 'node:fs'
import { uptime } from 'node:os'
import type { Instant } from '../../contract/job.ts'

/** When something was stored. */
export interface StoredTime {
  /** On the agent's clock; 0 where unknown. */
  keptAt: Instant
  /** The agent's clock minus this machine's. Milliseconds. */
  aheadMs: number
  /** Boot of the machine in which it was stored; undefined where unknown. */
  bootId?: string | undefined
  /** How long that boot had lasted. Milliseconds. */
  sinceBootMs?: number | undefined
}

/** How far behind the last change of the monitors the clock may be when they are read from disk. */
const BEHIND_MS_MAX = 60_000
/** Largest difference between clock and uptime of the same boot; above that the clock was set. */
const SET_MS_MAX = 3_600_000

const WAIT = 'they wait for the platform or the right time'
const BEHIND = `this machine’s clock is behind the last change of the monitors; ${WAIT}`
const SET = `this machine’s clock was set by more than an hour since the monitors were stored; ${WAIT}`

/** The time to store, of this moment. */
export function storedTime(now: Instant): StoredTime {
  return { keptAt: now, aheadMs: now - Date.now(), ...sinceBoot() }
}

/** Why monitors stored then have to wait; undefined where the clock is plausible. */
export function clockProblem(stored: StoredTime): { offMs: number; message: string } | undefined {
  const elapsedMs = Date.now() + stored.aheadMs - stored.keptAt
  if (elapsedMs < -BEHIND_MS_MAX) return { offMs: Math.round(elapsedMs), message: BEHIND }
  const { bootId, sinceBootMs = 0 } = sinceBoot()
  // After another boot it is unknown how long the machine was off.
  if (bootId === undefined || bootId !== stored.bootId) return undefined
  const offMs = Math.round(elapsedMs - (sinceBootMs - (stored.sinceBootMs ?? 0)))
  return Math.abs(offMs) > SET_MS_MAX ? { offMs, message: SET } : undefined
}

/** The monotonic clock leaves out sleep, and an LXC container shows an uptime of its own: the longer one is right. */
function sinceBoot(): Pick<StoredTime, 'bootId' | 'sinceBootMs'> {
  try {
    const bootId = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    const monotonicMs = Number(process.hrtime.bigint() / 1_000_000n)
    return { bootId, sinceBootMs: Math.max(uptime() * 1000, monotonicMs) }
  } catch {
    return {}
  }
}
