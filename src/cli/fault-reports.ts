// Who is told of faults of the program: the platform, or the receiver that SENTRY_DSN names, or nobody. Where
// nobody is told nothing is made, and what tells is loaded with the first fault.
import type { ConfigReading } from '../agent/config.ts'
import { VERSION } from '../contract/versions.ts'
import type { FaultReceiver } from '../process/faults/fault.ts'
import { createFaultReports, type FaultReports } from '../process/faults/reports.ts'
import { parseDsn, type SentryDsn } from '../process/faults/sentry-dsn.ts'

/** The platform of an agent. */
export interface FaultsPlatform {
  platformUrl: string
  apiKey: string
  /** Undefined until it is known. */
  agentId: () => string | undefined
}

/** Stands for an agent that had a fault before it knew its id. */
const NO_AGENT = '00000000-0000-4000-8000-000000000000'

/** The reports of an agent; undefined where it shall make none, or nobody is there to take them. */
export function agentFaults(
  { config, secrets }: ConfigReading,
  platform?: FaultsPlatform,
): FaultReports | undefined {
  if (!config.externalObservability) return undefined
  const way = { proxyUrl: config.platformProxyUrl, noProxy: config.noProxy }
  const dsn = config.sentryDsn === undefined ? undefined : parseDsn(config.sentryDsn)
  const release = `vedette-agent@${VERSION}`
  if (dsn !== undefined) {
    return createFaultReports({ release, secrets, open: () => posterTo(dsn, way) })
  }
  if (platform === undefined) return undefined
  const agentId = () => platform.agentId() ?? NO_AGENT
  return createFaultReports({
    release,
    secrets,
    async open() {
      const { createPlatformPoster } = await import('../agent/platform/envelope-poster.ts')
      return createPlatformPoster(platform, way, agentId)
    },
  })
}

/** Opens the way to the receiver that a DSN names. */
export async function posterTo(
  dsn: SentryDsn,
  way: { proxyUrl: string | undefined; noProxy: readonly string[] },
): Promise<FaultReceiver> {
  const { createDsnPoster } = await import('../agent/platform/envelope-poster.ts')
  return createDsnPoster(dsn, way)
}
