// Findings of `vedette doctor`, and probes, which run concurrently within a deadline.

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

/** The result for one probed thing. */
export interface Finding {
  id: Probed
  standing: Standing
  /** A short sentence. */
  says: string
  /** The line that fixes it. */
  fix?: string
  /** For machines. */
  facts?: Record<string, unknown>
}

/** A check of this machine, with one or more findings. */
export interface Probe {
  /** The finding's id; the first one when the probe itself fails. */
  id: Probed
  /** Ends soon after the signal is aborted. */
  run(signal: AbortSignal): Promise<Finding[]>
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
  const limit = new AbortController()
  const late = Promise.withResolvers<void>()
  const onAbort = () => {
    limit.abort(signal.reason)
    late.resolve()
  }
  const timer = setTimeout(() => limit.abort(new Error(lateMessage(deadlineMs))), deadlineMs)
  // A probe that ignores the signal is not waited for.
  const lastTimer = setTimeout(() => late.resolve(), deadlineMs + GRACE_MS)
  signal.addEventListener('abort', onAbort, { once: true })
  if (signal.aborted) onAbort()
  try {
    const found = probes.map((probe) =>
      Promise.race([
        runProbe(probe, limit.signal),
        late.promise.then(() => [failed(probe.id, lateMessage(deadlineMs))]),
      ]),
    )
    const ids = Object.keys(PROBED)
    return (await Promise.all(found))
      .flat()
      .toSorted((one, other) => ids.indexOf(one.id) - ids.indexOf(other.id))
  } finally {
    clearTimeout(timer)
    clearTimeout(lastTimer)
    signal.removeEventListener('abort', onAbort)
  }
}

/** Time for the probes to end after the deadline. */
const GRACE_MS = 1500

const lateMessage = (deadlineMs: number) => `not done within ${deadlineMs / 1000} s`

function failed(id: Probed, says: string): Finding {
  return { id, standing: 'broken', says }
}

async function runProbe(probe: Probe, signal: AbortSignal): Promise<Finding[]> {
  try {
    return await probe.run(signal)
  } catch (error) {
    return [failed(probe.id, `could not be looked at: ${(error as Error).message}`)]
  }
}
