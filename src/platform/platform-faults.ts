// Who is told of faults of the platform: its own table, or the receiver that SENTRY_DSN names, or nobody.
import { reportOf } from '../contract/protocol/fault-report.ts'
import { VERSION } from '../contract/versions.ts'
import type { FaultEvent, FaultReceiver } from '../process/faults/fault.ts'
import { createFaultReports, type FaultReports } from '../process/faults/reports.ts'
import { parseDsn, type SentryDsn } from '../process/faults/sentry-dsn.ts'
import type { Connection } from '../database/statement.ts'
import type { PlatformConfigReading } from './config.ts'

/** Opens the way to a receiver of another program; the platform has none of its own. */
export type PosterTo = (
  dsn: SentryDsn,
  way: { proxyUrl: string | undefined; noProxy: readonly string[] },
) => Promise<FaultReceiver>

/**
 * The platform's reports; undefined where it shall make none. `database`: where they are kept; undefined
 * while it is not open.
 */
export function platformFaults(
  { config, secrets }: PlatformConfigReading,
  posterTo: PosterTo,
  database: () => Connection | undefined,
): FaultReports | undefined {
  const { externalObservability, sentryDsn, proxyUrl, noProxy } = config
  if (!externalObservability) return undefined
  const dsn = sentryDsn === undefined ? undefined : parseDsn(sentryDsn)
  return createFaultReports({
    release: `vedette-platform@${VERSION}`,
    secrets,
    open: () => (dsn === undefined ? keeper(database) : posterTo(dsn, { proxyUrl, noProxy })),
  })
}

async function keeper(database: () => Connection | undefined): Promise<FaultReceiver> {
  const { keepPlatformFault } = await import('./faults/queries.ts')
  return {
    async take(event: FaultEvent) {
      const connection = database()
      const report = reportOf(event)
      if (connection === undefined || report === undefined)
        throw new Error('there is nowhere to keep it')
      await keepPlatformFault(connection, report)
      return { status: 200, headers: {} }
    },
  }
}
