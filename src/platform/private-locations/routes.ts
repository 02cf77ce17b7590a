// Private locations, in which agents run: list, create, read, replace and delete. The password of a proxy is stored
// and never shown.
import { randomUUID } from 'node:crypto'
import * as z from 'zod'
import { API_BOUNDS } from '../../contract/api/bounds.ts'
import { SECRET_MASK } from '../../contract/api/resource.ts'
import { compareVersions, VERSION } from '../../contract/versions.ts'
import {
  PrivateLocation,
  PrivateLocationChange,
  PrivateLocationInput,
  PublicRegion,
  type RunningAgents,
} from './schema.ts'
import type { Queryable } from '../../database/database.ts'
import { raiseRevisions } from '../checks/queries/placements.ts'
import {
  changePrivateLocation,
  deletePrivateLocation,
  insertPrivateLocation,
  listPrivateLocations,
  locationIdsBySlug,
  type PrivateLocationRow,
  readPrivateLocation,
  usersOfLocation,
} from './queries/locations.ts'
import { changing, type MonitorParts } from '../checks/writing.ts'
import { ApiError, conflictOf } from '../http/errors.ts'
import type { Cipher } from '../secrets/cipher.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { booleanParameter, idParameter } from '../http/parameters.ts'
import { Resource } from '../http/resource.ts'

const tag = 'Private Locations'
const locations = new Resource({
  tag,
  path: '/v1/private-locations',
  one: { id: idParameter('private location') },
  what: 'private location',
  schema: PrivateLocation,
})

/** The operations on private locations themselves. */
export function privateLocationOperations(parts: MonitorParts): DefinedOperation[] {
  return [...reads(parts), ...writes(parts), regions()]
}

function reads({ database, cipher }: MonitorParts): DefinedOperation[] {
  return [
    locations.list(
      {
        summary: 'List private locations',
        description: 'Oldest first, all of them.',
        query: { versions: booleanParameter('With the versions of running agents') },
      },
      async ({ accountId, query: { versions = false } }) => {
        const max = API_BOUNDS.privateLocationsMax
        const rows = await listPrivateLocations(database, accountId, max)
        return JSON.stringify(rows.map((row) => locationForm(cipher, row, { versions })))
      },
    ),
    locations.read({ summary: 'Read a private location' }, ({ accountId, id }) =>
      readForm(database, cipher, accountId, id),
    ),
  ]
}

function writes(parts: MonitorParts): DefinedOperation[] {
  return [
    locations.create(
      {
        summary: 'Create a private location',
        description: 'Agents need a key of it, which is created separately.',
        body: PrivateLocationInput,
        conflict: 'Another location has this slugName, or the account has as many as it may have',
      },
      ({ accountId, body }) => create(parts, accountId, body),
    ),
    locations.replace(
      {
        summary: 'Replace the name, icon and proxy of a private location',
        description: 'Its `slugName` never changes: results and definitions name it.',
        body: PrivateLocationChange,
      },
      ({ accountId, id, body }) => replace(parts, { accountId, id }, body),
    ),
    locations.remove(
      {
        summary: 'Delete a private location with its keys',
        description:
          'Its agents are refused from then on; results stay until their retention ends.',
        conflict: 'Checks or groups name the location',
      },
      ({ accountId, id }) =>
        changing(parts, accountId, async (tx) => {
          const { monitors, groups } = await usersOfLocation(tx, accountId, id)
          if (monitors + groups > 0) {
            const who = `${monitors} checks and ${groups} groups`
            throw new ApiError(409, `${who} use this location; remove it from them first`)
          }
          return deletePrivateLocation(tx, accountId, id)
        }),
    ),
  ]
}

function regions(): DefinedOperation {
  return defineOperation({
    tag,
    summary: 'List public regions: none',
    description: 'A platform of your own has no public regions; checks run in private locations.',
    method: 'get',
    path: '/v1/locations',
    answers: { status: 200, schema: z.array(PublicRegion), description: 'An empty list' },
    answer: async () => '[]',
  })
}

function create(
  parts: MonitorParts,
  accountId: string,
  body: z.output<typeof PrivateLocationInput>,
): Promise<string | undefined> {
  const id = randomUUID()
  const { slugName } = body
  const proxyUrl = encryptedProxy(parts, body.proxyUrl, undefined)
  const max = API_BOUNDS.privateLocationsMax
  const takenMessage = `Another location has the slugName "${slugName}"`
  return changing(parts, accountId, async (tx) => {
    const there = await locationIdsBySlug(tx, accountId)
    if (there.size >= max) throw new ApiError(409, `An account has at most ${max} locations`)
    await insertPrivateLocation(tx, { ...body, id, accountId, proxyUrl }, slugName)
    return readForm(tx, parts.cipher, accountId, id)
  }).catch(conflictOf('private_locations_slug_taken', takenMessage))
}

function replace(
  parts: MonitorParts,
  { accountId, id }: { accountId: string; id: string },
  body: z.output<typeof PrivateLocationChange>,
): Promise<string | undefined> {
  return changing(parts, accountId, async (tx) => {
    const before = await readPrivateLocation(tx, accountId, id)
    if (before === undefined) return undefined
    const { slugName, proxyUrl: stored } = before
    if (body.slugName !== undefined && body.slugName !== slugName) {
      throw new ApiError(400, `slugName: cannot change from "${slugName}"; create another location`)
    }
    const proxyUrl = encryptedProxy(parts, body.proxyUrl, stored ?? undefined)
    await changePrivateLocation(tx, { ...body, id, accountId, proxyUrl })
    await raiseRevisions(tx, accountId, [id])
    return readForm(tx, parts.cipher, accountId, id)
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
  throw new ApiError(400, 'proxyUrl: add the password; the stored one belongs to another address')
}

async function readForm(
  connection: Queryable,
  cipher: Cipher,
  accountId: string,
  id: string,
): Promise<string | undefined> {
  const row = await readPrivateLocation(connection, accountId, id)
  return row && JSON.stringify(locationForm(cipher, row, { versions: true }))
}

/** The read model of a location. */
function locationForm(
  cipher: Cipher,
  { proxyUrl, agents, ...location }: PrivateLocationRow,
  { versions }: { versions: boolean },
): PrivateLocation {
  const absent = location.lastSeen === null ? 'never-reported' : 'stopped-reporting'
  const runningAgents = byVersion(agents)
  return {
    ...location,
    proxyUrl: proxyUrl === null ? null : maskedProxy(cipher.decrypt(proxyUrl)),
    agentCount: agents.length,
    agentStatus: agents.length > 0 ? 'reporting' : absent,
    ...(versions && { minAgentVersion: runningAgents[0]?.version ?? null, runningAgents }),
  }
}

/** Agents by version, the oldest version first. */
function byVersion(agents: PrivateLocationRow['agents']): RunningAgents[] {
  return [...Map.groupBy(agents, (agent) => agent.version)]
    .map(([version, some]) => ({
      version,
      isOutdated: compareVersions(version, VERSION) < 0,
      count: some.length,
      agents: some.map(({ id, lastSeenAt }) => ({ id, lastSeenAt })),
    }))
    .toSorted((a, b) => compareVersions(a.version, b.version))
}

/** The URL with a mask in place of its password. */
function maskedProxy(url: string): string {
  const parsed = new URL(url)
  return parsed.password === '' ? url : withPassword(parsed, SECRET_MASK)
}

/**
 * The URL with its mask replaced by the stored password; undefined without a stored password for the same
 * address.
 */
function unmaskedProxy(url: string, stored: string | undefined): string | undefined {
  const parsed = new URL(url)
  if (parsed.password !== SECRET_MASK) return url
  const isSame = stored !== undefined && maskedProxy(stored) === withPassword(parsed, SECRET_MASK)
  return isSame ? stored : undefined
}

function withPassword(url: URL, password: string): string {
  const copy = new URL(url)
  copy.password = password
  return copy.href
}
