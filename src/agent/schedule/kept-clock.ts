// Whether the machine's clock is good enough for monitors that were kept on disk, while no platform says the time.
import { readFileSync } from 'node:fs'
import { uptime } from 'node:os'
import type { Instant } from '../../contract/job.ts'

/** When something was kept. */
export interface KeptTime {
  /** On the agent's clock; 0 where that is not known. */
  keptAt: Instant
  /** The agent's clock minus this machine's. Milliseconds. */
  aheadMs: number
  /** The boot of the machine in which it was kept; undefined where that is not known. */
  bootId?: string | undefined
  /** How long that boot had lasted. Milliseconds. */
  sinceBootMs?: number | undefined
}

/** How far behind the last change of the monitors the clock may be when they are read from disk. */
const BEHIND_MS_MAX = 60_000
/** How far the clock may be from what the same boot's uptime says; above that somebody has set it. */
const SET_MS_MAX = 3_600_000

const WAIT = 'they wait for the platform or the right time'
const BEHIND = `this machine’s clock is behind the last change of the monitors; ${WAIT}`
const SET = `this machine’s clock was set by more than an hour since the monitors were kept; ${WAIT}`

/** What is kept, of this moment. */
export function keptTime(now: Instant): KeptTime {
  return { keptAt: now, aheadMs: now - Date.now(), ...sinceBoot() }
}

/** Why monitors that were kept then have to wait; undefined where nothing speaks against the clock. */
export function clockProblem(kept: KeptTime): { offMs: number; message: string } | undefined {
  const elapsedMs = Date.now() + kept.aheadMs - kept.keptAt
  if (elapsedMs < -BEHIND_MS_MAX) return { offMs: Math.round(elapsedMs), message: BEHIND }
  const { bootId, sinceBootMs = 0 } = sinceBoot()
  // In another boot nobody knows how long the machine was off.
  if (bootId === undefined || bootId !== kept.bootId) return undefined
  const offMs = Math.round(elapsedMs - (sinceBootMs - (kept.sinceBootMs ?? 0)))
  return Math.abs(offMs) > SET_MS_MAX ? { offMs, message: SET } : undefined
}

/** The monotonic clock leaves out sleep, and an LXC container shows an uptime of its own: the longer one is right. */
function sinceBoot(): Pick<KeptTime, 'bootId' | 'sinceBootMs'> {
  try {
    const bootId = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    const monotonicMs = Number(process.hrtime.bigint() / 1_000_000n)
    return { bootId, sinceBootMs: Math.max(uptime() * 1000, monotonicMs) }
  } catch {
    return {}
  }
}
