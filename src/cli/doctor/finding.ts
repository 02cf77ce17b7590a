// The words of `vedette doctor`: what a probe finds, and how probes are run side by side within their time.

/** Everything that is looked at, in the order of the report, with its name for people. */
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
 * `works`; `warning`: it works, and yet something had better be fixed; `broken`: it is needed and does not
 * work; `absent`: it is neither installed nor asked for by the settings.
 */
export type Standing = 'works' | 'warning' | 'broken' | 'absent'

/** What was found. */
export interface Finding {
  id: Probed
  standing: Standing
  /** In a few words. */
  says: string
  /** The line that fixes it. */
  fix?: string
  /** For machines. */
  facts?: Record<string, unknown>
}

/** One look at something, which may tell of several things. */
export interface Probe {
  /** What is told of; the first one when the look itself fails. */
  id: Probed
  /** Lets go soon after the signal is aborted. */
  run(signal: AbortSignal): Promise<Finding[]>
}

/**
 * Runs all probes at the same time; a probe that is not done by the deadline, or fails, is a finding of its own.
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
  // Who does not heed the signal is not waited for.
  const lastTimer = setTimeout(() => late.resolve(), deadlineMs + LET_GO_MS)
  signal.addEventListener('abort', onAbort, { once: true })
  if (signal.aborted) onAbort()
  try {
    const found = probes.map((probe) =>
      Promise.race([
        looked(probe, limit.signal),
        late.promise.then(() => [failed(probe.id, lateMessage(deadlineMs))]),
      ]),
    )
    const order = Object.keys(PROBED)
    return (await Promise.all(found))
      .flat()
      .toSorted((one, other) => order.indexOf(one.id) - order.indexOf(other.id))
  } finally {
    clearTimeout(timer)
    clearTimeout(lastTimer)
    signal.removeEventListener('abort', onAbort)
  }
}

/** Time to let go of everything, when time is up. */
const LET_GO_MS = 1500

const lateMessage = (deadlineMs: number) => `not done within ${deadlineMs / 1000} s`

function failed(id: Probed, says: string): Finding {
  return { id, standing: 'broken', says }
}

async function looked(probe: Probe, signal: AbortSignal): Promise<Finding[]> {
  try {
    return await probe.run(signal)
  } catch (error) {
    return [failed(probe.id, `could not be looked at: ${(error as Error).message}`)]
  }
}
