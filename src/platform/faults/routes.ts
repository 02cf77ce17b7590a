// Faults of our own programs: receives reports of agents in Sentry's protocol, stores them within bounds, and
// shows them with those of the platform.
import * as z from 'zod'
import {
  AgentError,
  FAULT_BOUNDS,
  PlatformError,
  readEnvelope,
  reportOf,
  type Envelope,
} from '../../contract/protocol/fault-report.ts'
import type { Log } from '../../process/log.ts'
import type { Database } from '../../database/database.ts'
import { faultsOfLocation, faultsOfPlatform, forgetFaults, storeFault } from './queries.ts'
import { readPrivateLocation } from '../private-locations/queries/locations.ts'
import { defineAgentOperation, type DefinedAgentOperation } from '../http/agent-operation.ts'
import { readBytes } from '../http/body.ts'
import type { BackgroundJob } from '../jobs/background-jobs.ts'
import { ApiError, orNotFound } from '../http/errors.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { idParameter } from '../http/parameters.ts'

const BODY_BOUNDS = { bodyBytesMax: FAULT_BOUNDS.envelopeBytesMax, bodyMs: 15_000 }

/** The call by which an agent reports its faults. */
export function faultIntakeOperation({
  database,
  log,
}: {
  database: Database
  log: Pick<Log, 'warn'>
}): DefinedAgentOperation {
  return defineAgentOperation({
    summary: 'Report faults of an agent itself',
    description:
      'An envelope of Sentry’s protocol: what its DSN `https://<key of the location>@<platform>/agent/v1/<id of the agent>` stands for, so the key may come in `X-Sentry-Auth`, too. Of its events the error, its stack, release, operating system and engine are kept, the same fault once; other items are passed over.',
    method: 'post',
    path: '/agent/v1/api/{agent}/envelope',
    isSlashed: true,
    kind: 'faults',
    params: { agent: idParameter('agent') },
    body: {
      contentType: 'application/x-sentry-envelope',
      schema: z.string(),
      bytesMax: BODY_BOUNDS.bodyBytesMax,
    },
    answers: {
      schema: z.object({ id: z.string().optional() }).meta({ id: 'EnvelopeTaken' }),
      description: 'It is accepted; `id` is its `event_id`',
    },
    async answer({ c, key: { locationId, slugName }, params: { agent: agentId } }) {
      if ((c.req.header('content-encoding') ?? 'identity') !== 'identity') {
        throw new ApiError(415, 'The body must not be compressed')
      }
      const { eventId, events } = envelopeIn(await readBytes(c, BODY_BOUNDS))
      for (const event of events) {
        const report = reportOf(event)
        if (report === undefined) continue
        const isNew = await storeFault(database, { locationId, agentId }, report)
        if (!isNew) continue
        const { type, message, release } = report
        const fields = { location: slugName, agentId, type, message, release }
        log.warn(fields, 'an agent reports a fault of its own')
      }
      return JSON.stringify({ id: eventId })
    },
  })
}

function envelopeIn(bytes: Buffer): Envelope {
  try {
    return readEnvelope(bytes)
  } catch (error) {
    throw new ApiError(400, `The envelope cannot be read: ${(error as Error).message}`)
  }
}

/** The operations of the public API on faults. */
export function faultOperations(database: Database): DefinedOperation[] {
  return [ofLocation(database), ofPlatform(database)]
}

function ofLocation(database: Database): DefinedOperation {
  return defineOperation({
    tag: 'Private Locations',
    summary: 'List the faults of a private location’s agents',
    description: `Faults of the agents themselves, not of what they check: at most ${FAULT_BOUNDS.perAgentMax} of an agent and ${FAULT_BOUNDS.perLocationMax} of a location, last seen first, for ${FAULT_BOUNDS.retentionMs / 86_400_000} days.`,
    method: 'get',
    path: '/v1/private-locations/{id}/errors',
    params: { id: idParameter('private location') },
    query: {
      agentId: z
        .guid()
        .transform((id) => id.toLowerCase())
        .optional()
        .openapi({ type: 'string', format: 'uuid', description: 'Only those of one agent' }),
    },
    answers: { status: 200, schema: z.array(AgentError), description: 'The faults' },
    async answer({ key: { accountId }, params: { id: locationId }, query }) {
      orNotFound(await readPrivateLocation(database, accountId, locationId), 'private location')
      const agentId = query.agentId ?? null
      const faults = await faultsOfLocation(database, { accountId, locationId, agentId })
      return `[${faults.join(',')}]`
    },
  })
}

function ofPlatform(database: Database): DefinedOperation {
  return defineOperation({
    tag: 'Platform',
    summary: 'List the faults of the platform itself',
    description: `At most ${FAULT_BOUNDS.perAgentMax}, last seen first.`,
    method: 'get',
    path: '/v1/platform-errors',
    action: 'administer',
    answers: { status: 200, schema: z.array(PlatformError), description: 'The faults' },
    answer: async () => `[${(await faultsOfPlatform(database)).join(',')}]`,
  })
}

/** Deletes faults not seen for long. */
export function faultRetention(database: Database): BackgroundJob {
  return {
    name: 'faults-retention',
    everyMs: 3_600_000,
    timeoutMs: 60_000,
    run: () => forgetFaults(database, FAULT_BOUNDS.retentionMs),
  }
}
