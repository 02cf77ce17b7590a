// Fault reports of the platform go to its own table, to the receiver in SENTRY_DSN, or nowhere.
import { reportOf } from '../contract/protocol/fault-report.ts'
import { VERSION } from '../contract/versions.ts'
import type { FaultEvent } from '../process/faults/event.ts'
import type { FaultReceiver } from '../process/faults/sentry-envelope.ts'
import { FaultReports } from '../process/faults/reports.ts'
import { parseDsn, type SentryDsn } from '../process/faults/sentry-dsn.ts'
import type { Queryable } from '../database/database.ts'
import type { PlatformConfigReading } from './config.ts'

/** Creates the sender to an external receiver; given, since the platform has no HTTP client. */
export type PosterTo = (
  dsn: SentryDsn,
  way: { proxyUrl: string | undefined; noProxy: readonly string[] },
) => Promise<FaultReceiver>

/**
 * The platform's fault reports; undefined where they are switched off. `database` stores them; it returns
 * undefined while it is not open.
 */
export function platformFaults(
  { config }: Pick<PlatformConfigReading, 'config'>,
  posterTo: PosterTo,
  database: () => Queryable | undefined,
): FaultReports | undefined {
  const { externalObservability, sentryDsn, proxyUrl, noProxy } = config
  if (!externalObservability) return undefined
  const dsn = sentryDsn === undefined ? undefined : parseDsn(sentryDsn)
  return new FaultReports({
    release: `vedette-platform@${VERSION}`,
    open: () =>
      dsn === undefined ? databaseReceiver(database) : posterTo(dsn, { proxyUrl, noProxy }),
  })
}

async function databaseReceiver(database: () => Queryable | undefined): Promise<FaultReceiver> {
  const { storeFault } = await import('./faults/queries.ts')
  return {
    async take(event: FaultEvent) {
      const connection = database()
      const report = reportOf(event)
      if (connection === undefined || report === undefined)
        throw new Error('fault not stored: the database is not open')
      await storeFault(connection, { locationId: null, agentId: null }, report)
      return { status: 200, headers: {} }
    },
  }
}
