// Keys with which agents of a private location report: made, shown once, and revoked. Two may be active,
// so that one can be replaced by another without a pause.
import { randomBytes, randomUUID } from 'node:crypto'
import { NewLocationKey } from './schema.ts'
import { insertLocationKey, revokeLocationKey } from './queries/keys.ts'
import type { Database } from '../../database/database.ts'
import { tracesOf } from '../secrets/api-key.ts'
import { notFound, ApiError } from '../http/errors.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { idParameter } from '../http/parameters.ts'

const TAG = 'Private Locations'
const PATH = '/v1/private-locations/{id}/keys'
const ACTIVE_MAX = 2

/** Makes a key of 256 random bits for agents. */
function makeLocationKey(): string {
  return `pl_${randomBytes(32).toString('base64url')}`
}

/** The operations on keys of locations. */
export function locationKeyOperations(database: Database): DefinedOperation[] {
  return [create(database), revoke(database)]
}

function create(database: Database): DefinedOperation {
  return defineOperation({
    operationId: 'postV1PrivatelocationsIdKeys',
    tag: TAG,
    summary: 'Make a key for agents of a private location',
    description:
      'It is shown only now. To replace one: make another, give it to all agents, revoke the first.',
    method: 'post',
    path: PATH,
    action: 'administer',
    params: { id: idParameter('private location') },
    answers: { status: 201, schema: NewLocationKey, description: 'The key' },
    conflict: `The location has ${ACTIVE_MAX} active keys`,
    async answer({ key: { accountId }, params: { id: locationId } }) {
      const rawKey = makeLocationKey()
      const id = randomUUID()
      const { hash, suffix } = tracesOf(rawKey)
      const made = await database.transaction((tx) =>
        insertLocationKey(tx, { id, accountId, locationId, hash, suffix }, ACTIVE_MAX),
      )
      if (made === 'absent') throw notFound('private location')
      if (made === 'full') {
        const message = `The location has ${ACTIVE_MAX} active keys; delete the one that no agent uses`
        throw new ApiError(409, message)
      }
      const key = { id, rawKey, maskedKey: `...${suffix}`, created_at: made.toISOString() }
      return { status: 201, json: JSON.stringify(key) }
    },
  })
}

function revoke(database: Database): DefinedOperation {
  return defineOperation({
    operationId: 'deleteV1PrivatelocationsIdKeysKeyid',
    tag: TAG,
    summary: 'Revoke a key of a private location',
    description: 'Agents that use it are refused within seconds.',
    method: 'delete',
    path: `${PATH}/{keyId}`,
    action: 'administer',
    params: { id: idParameter('private location'), keyId: idParameter('key') },
    answers: { status: 204, description: 'The key is revoked' },
    async answer({ key: { accountId }, params: { id: locationId, keyId: id } }) {
      const revoked = await revokeLocationKey(database, { accountId, locationId, id })
      if (!revoked) throw notFound('key')
      return { status: 204 }
    },
  })
}
