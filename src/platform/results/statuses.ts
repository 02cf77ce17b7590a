// GET /v1/check-statuses: the present state of monitors, from their newest results.
import * as z from 'zod'
import { CheckStatus, overallVerdict, resultId } from './schema.ts'
import type { CheckStatus as Status } from './schema.ts'
import {
  listStatuses,
  type LocationState,
  readStatus,
  type StatusRow,
} from './queries/check-results.ts'
import type { Database } from '../../database/database.ts'
import { orNotFound } from '../http/errors.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { idParameter } from '../http/parameters.ts'

const TAG = 'Check Status'
const PATH = '/v1/check-statuses'

/** Shown for an active check without a private location. */
const CHECK_UNPLACED =
  'No agent runs this check: it names only public locations, which this platform does not have. Add a private location'

/** The operations on the present state of monitors. */
export function checkStatusOperations(database: Database): DefinedOperation[] {
  return [
    defineOperation({
      tag: TAG,
      summary: 'List the present state of monitors',
      method: 'get',
      path: PATH,
      answers: {
        status: 200,
        schema: z.array(CheckStatus),
        description: 'The states of all monitors, newest monitors first',
      },
      async answer({ key: { accountId } }) {
        const rows = await listStatuses(database, accountId)
        return JSON.stringify(rows.map(statusOf))
      },
    }),
    defineOperation({
      tag: TAG,
      summary: 'Read the present state of a monitor',
      method: 'get',
      path: `${PATH}/{checkId}`,
      params: { checkId: idParameter('monitor') },
      answers: { status: 200, schema: CheckStatus, description: 'Its state' },
      async answer({ key, params: { checkId } }) {
        const row = orNotFound(await readStatus(database, key.accountId, checkId), 'monitor')
        return JSON.stringify(statusOf(row))
      },
    }),
  ]
}

/** States by which checks are listed. */
export const CHECK_STATES = ['passing', 'failing', 'degraded'] as const

/** The ids of the monitors of an account that are in a state; those without a verdict are in none. */
export async function idsInState(
  database: Database,
  accountId: string,
  state: (typeof CHECK_STATES)[number],
): Promise<string[]> {
  const all = (await listStatuses(database, accountId)).map(statusOf)
  return all.filter((one) => stateOf(one) === state).map(({ checkId }) => checkId)
}

function stateOf(status: Status): (typeof CHECK_STATES)[number] | undefined {
  if (status.hasFailures || status.hasErrors) return 'failing'
  if (status.isDegraded) return 'degraded'
  return status.verdict === 'passed' ? 'passing' : undefined
}

function statusOf({ id, name, checkType, activated, locations }: StatusRow): Status {
  const watched = locations.filter((one) => !one.unattended && one.verdict !== null)
  const counted = watched.length > 0 ? watched : locations
  const verdicts = counted.map(({ verdict }) => verdict)
  const ownVerdicts = locations.map(({ silence }) => silence?.verdict ?? null)
  // It must not look like a passing check: there is no verdict about the target.
  const isUnwatched = activated && locations.length === 0
  return {
    checkId: id,
    name,
    checkType,
    activated,
    verdict: overallVerdict(verdicts) ?? overallVerdict(ownVerdicts),
    hasFailures: verdicts.includes('failed'),
    hasErrors: isUnwatched || ownVerdicts.some((one) => one !== null),
    isDegraded: verdicts.includes('degraded'),
    locations: locations.map((one) => locationStatusOf(id, one)),
    ...(isUnwatched && { warning: CHECK_UNPLACED }),
  }
}

function locationStatusOf(monitorId: string, state: LocationState): Status['locations'][number] {
  const { locationId, silence, ...shown } = state
  const idOf = (slot: string) => resultId({ locationId, monitorId, slotMs: Date.parse(slot) })
  return {
    ...shown,
    lastCheckResultId: shown.lastSlot && idOf(shown.lastSlot),
    silence: silence && { ...silence, lastCheckResultId: idOf(silence.lastSlot) },
  }
}
