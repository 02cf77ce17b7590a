// How much waits in a private location: sampled every minute, read for a span of time.
import * as z from 'zod'
import { LocationMetrics } from './schema.ts'
import { CUSTOM_POLICIES } from '../../contract/api/rate-policy.ts'
import type { Database } from '../../database/database.ts'
import { listLocationSamples, readPrivateLocation, sampleLocations } from './queries/locations.ts'
import type { MonitorParts } from '../checks/writing.ts'
import type { BackgroundJob } from '../jobs/background-jobs.ts'
import { ApiError, orNotFound } from '../http/errors.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { idParameter } from '../http/parameters.ts'

const MINUTE_MS = 60_000
const RETENTION_DAYS = 15
const KEPT_MS = RETENTION_DAYS * 86_400_000
const SAMPLES_MAX = KEPT_MS / MINUTE_MS + 1

/** Samples all locations every minute. */
export function locationSampling(database: Database): BackgroundJob {
  return {
    name: 'location-samples',
    everyMs: MINUTE_MS,
    timeoutMs: MINUTE_MS,
    run: () => sampleLocations(database, RETENTION_DAYS),
  }
}

function unixTime(description: string) {
  return z
    .string()
    .regex(/^\d{1,12}$/, 'must be seconds since the Unix epoch')
    .transform(Number)
    .openapi({ type: 'integer', description })
}

/** The operation on metrics of locations. */
export function locationMetricsOperation({ database, clock }: MonitorParts): DefinedOperation {
  return defineOperation({
    tag: 'Private Locations',
    summary: 'Read how much waited in a private location',
    description: `One sample a minute while agents report; kept for ${RETENTION_DAYS} days.`,
    method: 'get',
    path: '/v1/private-locations/{id}/metrics',
    policy: CUSTOM_POLICIES['private-location-metrics'],
    params: { id: idParameter('private location') },
    query: {
      from: unixTime(`Seconds since the Unix epoch, at most ${RETENTION_DAYS} days ago`),
      to: unixTime('Seconds since the Unix epoch'),
    },
    answers: { status: 200, schema: LocationMetrics, description: 'Lists of the same length' },
    async answer({ key, params: { id }, query: { from, to } }) {
      if (from * 1000 < clock.now() - KEPT_MS) {
        throw new ApiError(400, `from: must be at most ${RETENTION_DAYS} days ago`)
      }
      if (to < from) throw new ApiError(400, 'to: must not be before `from`')
      orNotFound(await readPrivateLocation(database, key.accountId, id), 'private location')
      const span = [new Date(from * 1000), new Date(to * 1000)] as const
      const rows = await listLocationSamples(database, id, ...span, SAMPLES_MAX)
      const json = JSON.stringify({
        timestamps: rows.map((row) => row.at.toISOString()),
        queueSize: rows.map((row) => row.queue_size),
        oldestScheduledCheckRun: rows.map((row) => (row.oldest_scheduled_ms ?? 0) / 1000),
      })
      return json
    },
  })
}
