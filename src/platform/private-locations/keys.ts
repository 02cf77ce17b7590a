// Keys with which agents of a private location report: made, shown once, and revoked. Two may be active,
// so that one can be replaced by another without a pause.
import { randomBytes, randomUUID } from 'node:crypto'
import { API_BOUNDS } from '../../contract/api/bounds.ts'
import { NewLocationKey } from './schema.ts'
import { insertLocationKey, revokeLocationKey } from './queries/locations.ts'
import type { Database } from '../../database/database.ts'
import { tracesOf } from '../secrets/api-key.ts'
import { notFound, ApiError } from '../http/errors.ts'
import type { DefinedOperation } from '../http/operation.ts'
import { idParameter } from '../http/parameters.ts'
import { Resource } from '../http/resource.ts'

const of = { id: idParameter('private location') }
const keys = new Resource({
  tag: 'Private Locations',
  path: '/v1/private-locations/{id}/keys',
  of,
  one: { ...of, keyId: idParameter('key') },
  what: 'key',
  schema: NewLocationKey,
})
const { activeKeysMax } = API_BOUNDS

/** The operations on keys of locations. */
export function locationKeyOperations(database: Database): DefinedOperation[] {
  return [
    keys.create(
      {
        summary: 'Make a key for agents of a private location',
        description:
          'It is shown only now. To replace a key: create another, give it to all agents, revoke the first.',
        action: 'administer',
        conflict: `The location has ${activeKeysMax} active keys`,
      },
      ({ accountId, id: locationId }) => create(database, { accountId, locationId }),
    ),
    keys.remove(
      {
        summary: 'Revoke a key of a private location',
        description: 'Agents that use it are refused within seconds.',
        action: 'administer',
      },
      ({ accountId, id: locationId, keyId: id }) =>
        revokeLocationKey(database, { accountId, locationId, id }),
    ),
  ]
}

async function create(
  database: Database,
  location: { accountId: string; locationId: string },
): Promise<string> {
  const rawKey = `pl_${randomBytes(32).toString('base64url')}`
  const id = randomUUID()
  const { hash, suffix } = tracesOf(rawKey)
  const made = await database.transaction((tx) =>
    insertLocationKey(tx, { ...location, id, hash, suffix }, activeKeysMax),
  )
  if (made === 'absent') throw notFound('private location')
  if (made === 'full') {
    const message = `The location has ${activeKeysMax} active keys; delete the one that no agent uses`
    throw new ApiError(409, message)
  }
  const maskedKey = `...${suffix}`
  return JSON.stringify({ id, rawKey, maskedKey, created_at: made.toISOString() })
}
