// GET /v1/checks/{checkId}/under-way: scheduled runs of a check that run at present, and how far they are.
import { z } from '@hono/zod-openapi'
import { ShownUnderWay } from '../../contract/protocol/run-progress.ts'
import type { Database } from '../../database/database.ts'
import { knowsMonitor } from '../runs/queries/run-requests.ts'
import { slotsUnderWay, type UnderWayRow } from '../results/queries/slots-under-way.ts'
import { notFound } from '../http/errors.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { idParameter } from '../http/parameters.ts'

/** The operation on what runs at present. */
export function underWayOperation(database: Database): DefinedOperation {
  return defineOperation({
    operationId: 'getV1ChecksCheckidUnderway',
    tag: 'Check Runs',
    summary: 'List the scheduled runs of a check that are under way',
    description:
      'Browser and multistep checks and check suites that run at present, as their agents said with their last sync, which is at most half a minute ago.',
    method: 'get',
    path: '/v1/checks/{checkId}/under-way',
    action: 'read',
    params: { checkId: idParameter('check') },
    answers: {
      status: 200,
      schema: z.object({ underWay: z.array(ShownUnderWay) }).meta({ id: 'CheckUnderWayList' }),
      description: 'What runs, by location; up to 100',
    },
    async answer({ key: { accountId }, params: { checkId } }) {
      if (!(await knowsMonitor(database, accountId, checkId))) throw notFound('check')
      const rows = await slotsUnderWay(database, accountId, checkId)
      return { status: 200, json: JSON.stringify({ underWay: rows.map(shown) }) }
    },
  })
}

function shown({ location, agentId, saidAt, said }: UnderWayRow): z.input<typeof ShownUnderWay> {
  const { slot, startedAt, phase, done = null, total = null, line = null } = said
  return {
    location,
    agentId,
    slot: new Date(slot).toISOString(),
    startedAt: new Date(startedAt).toISOString(),
    progress: phase === undefined ? null : { phase, done, total, line, at: saidAt.toISOString() },
  }
}
