// Findings of `vedette doctor`, and probes, which run concurrently within a deadline.
import { setTimeout as sleep } from 'node:timers/promises'

/** Labels of all probed things, in the order of the report. */
export const PROBED = {
  settings: 'settings',
  platform: 'platform',
  proxy: 'proxy',
  tls: 'TLS',
  clock: 'clock',
  dns: 'name servers',
  disk: 'disk',
  'health-port': 'health port',
  icmp: 'ICMP',
  traceroute: 'traceroute',
  sandbox: 'user code',
  browser: 'browser',
  engines: 'engines',
  runtimes: 'runtimes',
} as const
export type Probed = keyof typeof PROBED

/**
 * `works`; `warning`: works, but a fix is recommended; `broken`: needed and does not work; `absent`: neither
 * installed nor required by the settings.
 */
export type Standing = 'works' | 'warning' | 'broken' | 'absent'

export interface Finding {
  id: Probed
  standing: Standing
  /** A short sentence. */
  says: string
  /** The line that fixes it. */
  fix?: string | undefined
  /** For machines. */
  facts?: Record<string, unknown> | undefined
}

/** Creates a finding of the standing `absent`. */
export const absent = (id: Probed, says: string): Finding => ({ id, standing: 'absent', says })

/** The fix where this user cannot have the rights that are missing. */
export const USER_FIX =
  'run the agent as another user  (docker run --user 10001, or runAsUser: 10001)'

/** A check of this machine, with one or more findings. */
export interface Probe {
  /** The finding's id; the first one when the probe itself fails. */
  id: Probed
  /** Ends soon after the signal is aborted. */
  run: (signal: AbortSignal) => Promise<Finding[]>
}

/**
 * Runs all probes concurrently; a probe that fails or misses the deadline becomes a finding.
 * Resolves soon after `signal` is aborted. Never rejects. Milliseconds.
 */
export async function runProbes(
  probes: readonly Probe[],
  deadlineMs: number,
  signal: AbortSignal,
): Promise<Finding[]> {
  const isLate = `not done within ${deadlineMs / 1000} s`
  const limit = AbortSignal.any([signal, AbortSignal.timeout(deadlineMs)])
  const done = new AbortController()
  const given = { signal: AbortSignal.any([signal, done.signal]) }
  // A probe that ignores the signal is not waited for.
  const late = sleep(deadlineMs + GRACE_MS, undefined, given).catch(() => {})
  const found = await Promise.all(
    probes.map(({ id, run }) => {
      const failed = (says: string): Finding[] => [{ id, standing: 'broken', says }]
      const findings = run(limit).catch(({ message }: Error) =>
        failed(limit.aborted ? isLate : `could not be probed: ${message}`),
      )
      return Promise.race([findings, late.then(() => failed(isLate))])
    }),
  )
  done.abort()
  const ids = Object.keys(PROBED)
  return found.flat().toSorted((one, other) => ids.indexOf(one.id) - ids.indexOf(other.id))
}

/** Time for the probes to end after the deadline. */
const GRACE_MS = 1500
