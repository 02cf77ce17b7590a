// Private locations, in which agents run: list, create, read, replace and delete.
import { randomUUID } from 'node:crypto'
import * as z from 'zod'
import { API_BOUNDS } from '../../contract/api/bounds.ts'
import {
  PrivateLocation,
  PrivateLocationChange,
  PrivateLocationInput,
  PublicRegion,
} from './schema.ts'
import type { Queryable } from '../../database/database.ts'
import { isDuplicate } from '../../database/database-failure.ts'
import { raiseRevisions } from '../checks/queries/placements.ts'
import {
  changePrivateLocation,
  deletePrivateLocation,
  insertPrivateLocation,
  listPrivateLocations,
  locationIdsBySlug,
  readPrivateLocation,
  usersOfLocation,
} from './queries/locations.ts'
import { changing, type MonitorParts } from '../checks/writing.ts'
import { notFound, ApiError } from '../http/errors.ts'
import { locationForm } from './form.ts'
import { unmaskedProxy } from './proxy.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { idParameter } from '../http/parameters.ts'

const TAG = 'Private Locations'
const PATH = '/v1/private-locations'
const ONE = `${PATH}/{id}`
const params = { id: idParameter('private location') }
const answers = { status: 200 as const, schema: PrivateLocation, description: 'The location' }

/** The operations on private locations themselves. */
export function privateLocationOperations(parts: MonitorParts): DefinedOperation[] {
  return [list(parts), create(parts), read(parts), replace(parts), remove(parts), regions()]
}

function list({ database, cipher }: MonitorParts): DefinedOperation {
  return defineOperation({
    operationId: 'getV1Privatelocations',
    tag: TAG,
    summary: 'List private locations',
    description: 'Oldest first, all of them.',
    method: 'get',
    path: PATH,
    action: 'read',
    query: {
      versions: z
        .enum(['true', 'false'])
        .default('false')
        .openapi({ type: 'boolean', description: 'With the versions of running agents' }),
    },
    answers: {
      status: 200,
      schema: z.array(PrivateLocation),
      description: 'The private locations',
    },
    async answer({ key, query }) {
      const rows = await listPrivateLocations(
        database,
        key.accountId,
        API_BOUNDS.privateLocationsMax,
      )
      const versions = query.versions === 'true'
      const locations = rows.map((row) => locationForm(cipher, row, { versions }))
      return { status: 200, json: JSON.stringify(locations) }
    },
  })
}

function create(parts: MonitorParts): DefinedOperation {
  return defineOperation({
    operationId: 'postV1Privatelocations',
    tag: TAG,
    summary: 'Create a private location',
    description: 'Agents need a key of it, which is made apart.',
    method: 'post',
    path: PATH,
    action: 'write',
    body: PrivateLocationInput,
    answers: { ...answers, status: 201 },
    conflict: 'Another location has this slugName, or the account has as many as it may have',
    async answer({ key: { accountId }, body }) {
      const id = randomUUID()
      const { slugName } = body
      const proxyUrl = encryptedProxy(parts, body.proxyUrl, undefined)
      try {
        const json = await changing(parts, accountId, async (tx) => {
          const there = await locationIdsBySlug(tx, accountId)
          if (there.size >= API_BOUNDS.privateLocationsMax) throw tooMany()
          await insertPrivateLocation(tx, { ...body, id, accountId, proxyUrl }, slugName)
          return formOf(tx, parts, accountId, id)
        })
        return { status: 201, json }
      } catch (error) {
        if (!isDuplicate(error, 'private_locations_slug_taken')) throw error
        throw new ApiError(409, `Another location has the slugName "${slugName}"`)
      }
    },
  })
}

function tooMany(): ApiError {
  return new ApiError(409, `An account has at most ${API_BOUNDS.privateLocationsMax} locations`)
}

function read(parts: MonitorParts): DefinedOperation {
  return defineOperation({
    operationId: 'getV1PrivatelocationsId',
    tag: TAG,
    summary: 'Read a private location',
    method: 'get',
    path: ONE,
    action: 'read',
    params,
    answers,
    answer: async ({ key, params: { id } }) => ({
      status: 200,
      json: await formOf(parts.database, parts, key.accountId, id),
    }),
  })
}

function replace(parts: MonitorParts): DefinedOperation {
  return defineOperation({
    operationId: 'putV1PrivatelocationsId',
    tag: TAG,
    summary: 'Replace the name, icon and proxy of a private location',
    description: 'Its `slugName` never changes: results and definitions name it.',
    method: 'put',
    path: ONE,
    action: 'write',
    params,
    body: PrivateLocationChange,
    answers,
    async answer({ key: { accountId }, params: { id }, body }) {
      const json = await changing(parts, accountId, async (tx) => {
        const before = await readPrivateLocation(tx, accountId, id)
        if (before === undefined) throw notFound('private location')
        const { slug_name: slugName, proxy_url: stored } = before
        if (body.slugName !== undefined && body.slugName !== slugName) {
          throw new ApiError(400, `slugName: must stay "${slugName}"; make another location`)
        }
        const proxyUrl = encryptedProxy(parts, body.proxyUrl, stored ?? undefined)
        await changePrivateLocation(tx, { ...body, id, accountId, proxyUrl })
        await raiseRevisions(tx, accountId, [id])
        return formOf(tx, parts, accountId, id)
      })
      return { status: 200, json }
    },
  })
}

function remove(parts: MonitorParts): DefinedOperation {
  return defineOperation({
    operationId: 'deleteV1PrivatelocationsId',
    tag: TAG,
    summary: 'Delete a private location with its keys',
    description: 'Its agents are refused from then on; results stay until their retention ends.',
    method: 'delete',
    path: ONE,
    action: 'write',
    params,
    answers: { status: 204, description: 'The location is deleted' },
    conflict: 'Checks or groups name the location',
    async answer({ key: { accountId }, params: { id } }) {
      await changing(parts, accountId, async (tx) => {
        const { monitors, groups } = await usersOfLocation(tx, accountId, id)
        if (monitors + groups > 0) {
          const who = `${monitors} checks and ${groups} groups`
          throw new ApiError(409, `${who} name this location; take it off them first`)
        }
        const deleted = await deletePrivateLocation(tx, accountId, id)
        if (!deleted) throw notFound('private location')
      })
      return { status: 204 }
    },
  })
}

function regions(): DefinedOperation {
  return defineOperation({
    operationId: 'getV1Locations',
    tag: TAG,
    summary: 'List public regions: none',
    description: 'A platform of your own has no public regions; checks run in private locations.',
    method: 'get',
    path: '/v1/locations',
    action: 'read',
    answers: { status: 200, schema: z.array(PublicRegion), description: 'An empty list' },
    answer: async () => ({ status: 200, json: '[]' }),
  })
}

function encryptedProxy(
  { cipher }: MonitorParts,
  given: string | null,
  stored: string | undefined,
): string | null {
  if (given === null) return null
  const url = unmaskedProxy(given, stored === undefined ? undefined : cipher.decrypt(stored))
  if (url !== undefined) return cipher.encrypt(url)
  throw new ApiError(400, 'proxyUrl: give the password; the stored one belongs to another address')
}

async function formOf(
  connection: Queryable,
  { cipher }: MonitorParts,
  accountId: string,
  id: string,
): Promise<string> {
  const row = await readPrivateLocation(connection, accountId, id)
  if (row === undefined) throw notFound('private location')
  return JSON.stringify(locationForm(cipher, row, { versions: true }))
}
