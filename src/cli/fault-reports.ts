// The receiver of fault reports: that of SENTRY_DSN, or the platform, or none. Without a receiver nothing is created.
import type { ConfigReading } from '../agent/config.ts'
import { VERSION } from '../contract/versions.ts'
import type { FaultReceiver } from '../process/faults/sentry-envelope.ts'
import { FaultReports } from '../process/faults/reports.ts'
import { parseDsn, type SentryDsn } from '../process/faults/sentry-dsn.ts'

export interface FaultsPlatform {
  platformUrl: string
  apiKey: string
  /** Undefined until it is known. */
  agentId: () => string | undefined
}

/** The id in reports of an agent that does not know its own id yet. */
const NO_AGENT = '00000000-0000-4000-8000-000000000000'

/** The fault reports of an agent; undefined when they are switched off or there is no receiver. */
export function agentFaults(
  { config }: Pick<ConfigReading, 'config'>,
  platform?: FaultsPlatform,
): FaultReports | undefined {
  if (!config.externalObservability) return undefined
  const route = { proxyUrl: config.platformProxyUrl, noProxy: config.noProxy }
  const dsn = config.sentryDsn === undefined ? undefined : parseDsn(config.sentryDsn)
  const release = `vedette-agent@${VERSION}`
  if (dsn !== undefined) {
    return new FaultReports({ release, open: () => posterTo(dsn, route) })
  }
  if (platform === undefined) return undefined
  const agentId = () => platform.agentId() ?? NO_AGENT
  return new FaultReports({
    release,
    async open() {
      const { createPlatformPoster } = await import('../agent/platform/envelope-poster.ts')
      return createPlatformPoster(platform, route, agentId)
    },
  })
}

/** Opens the connection to the receiver of a DSN. */
export async function posterTo(
  dsn: SentryDsn,
  route: { proxyUrl: string | undefined; noProxy: readonly string[] },
): Promise<FaultReceiver> {
  const { createDsnPoster } = await import('../agent/platform/envelope-poster.ts')
  return createDsnPoster(dsn, route)
}
