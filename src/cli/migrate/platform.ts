// Migration source: the scripted monitors of a platform, through its public API.
import * as z from 'zod'
import { AccountVariable } from '../../contract/api/account-variable.ts'
import { effectiveMonitor, needsOf } from '../../monitors/definitions.ts'
import { CheckGroup } from '../../contract/api/check-group.ts'
import { SECRET_MASK } from '../../contract/api/resource.ts'
import { Monitor } from '../../contract/monitor.ts'
import type { Environment } from '../../process/env.ts'
import type { ApplyTarget } from '../../client/config.ts'
import { PlatformError } from '../../client/command.ts'
import { askPublicApi } from '../../client/public-api.ts'
import type { Candidate, MigrationSource, Move, RuntimePlace } from './migration.ts'
import { fillSecrets, readSecrets, withValue } from './secrets.ts'

/** Selection of the monitors, and settings of their runs. */
export interface PlatformMigrationOptions {
  target: ApplyTarget
  /** Aborts the calls. */
  signal: AbortSignal
  env: Environment
  /** Slug name of a private location; undefined: the monitors of all of them. */
  location: string | undefined
  /** The location that scripts see where none is named. */
  defaultLocation: string
  move: Move
}

/** Reads all that is needed; `warnings` are for people. Rejects with PlatformError. */
export async function migrationOfPlatform(
  options: PlatformMigrationOptions,
): Promise<{ source: MigrationSource; warnings: string[] }> {
  const { target, signal, env, location, move } = options
  const api = { target, signal }
  const { proxyUrl } =
    location === undefined ? { proxyUrl: null } : await findLocation(api, location)
  const groups = await listAll(api, '/v1/check-groups', GroupRead)
  const account = await listAll(api, '/v1/variables', AccountVariable)
  const checks = await listAll(api, '/v1/checks', CheckRead)
  const byId = new Map(groups.map((one) => [one.id, one]))
  const all = checks.map((one) => effectiveCheck(one, byId))
  const own = all.flatMap((one) => one.effective.environmentVariables)
  const secrets = await readSecrets([...account, ...own], env)
  const isHere = ({ effective }: EffectiveCheck) =>
    location === undefined || (effective.privateLocations ?? []).includes(location)
  const [here, elsewhere] = [all.filter(isHere), all.filter((one) => !isHere(one))]
  const candidateOf = ({ effective, place }: EffectiveCheck): Candidate => {
    const filled = fillSecrets(effective, { account, secrets })
    if (place === undefined) return filled
    const other = elsewhere.find((one) => isOn(one, move.from) && one.place?.key === place.key)
    const name = other?.effective.name
    const obstacle = name && `“${name}” inherits it from there and is not in ${location}`
    return { ...filled, place: { ...place, ...(obstacle && { obstacle }) } }
  }
  const isMasked = proxyUrl?.includes(SECRET_MASK) === true
  const warning = `agents of ${location} go out through a proxy whose password is not shown; here monitors run without it`
  const source: MigrationSource = {
    snapshot: {
      location: location ?? options.defaultLocation,
      variables: account.map((one) => withValue(one, secrets)),
      monitors: [],
      ...(proxyUrl !== null && !isMasked && { proxyUrl }),
    },
    candidates: here
      .filter((one) => isOn(one, move.from))
      .map(candidateOf)
      .toSorted((one, other) => one.monitor.name.localeCompare(other.monitor.name)),
    movedAlready: here.filter((one) => isOn(one, move.to)).length,
    async write(places) {
      const readAt = new Map<string, string | null>([
        ...checks.map((one) => [checkPath(one), one.updated_at] as const),
        ...groups.map((one) => [groupPath(one), one.updated_at] as const),
      ])
      const failed = new Map<string, string>()
      for (const { key } of places) {
        const problem = await changeRuntime(api, key, move, readAt.get(key) ?? null).catch(
          ({ message }: Error) => message,
        )
        if (problem !== undefined) failed.set(key, problem)
      }
      return failed
    },
  }
  return { source, warnings: isMasked ? [warning] : [] }
}

/** How the public API is called. */
type Api = Pick<PlatformMigrationOptions, 'target' | 'signal'>

const PAGE = 100

/** All entries of a listing. */
async function listAll<T extends z.ZodType>(
  { target, signal }: Api,
  path: string,
  entry: T,
): Promise<z.output<T>[]> {
  const all: z.output<T>[] = []
  for (let page = 1; ; page++) {
    const call = { method: 'GET', path: `${path}?limit=${PAGE}&page=${page}`, signal } as const
    const entries = await askPublicApi(target, call, z.array(entry))
    all.push(...entries)
    if (entries.length < PAGE) return all
  }
}

const Location = z.object({ slugName: z.string(), proxyUrl: z.string().nullable() })

/** The private location of that slug name. */
async function findLocation(
  { target, signal }: Api,
  slugName: string,
): Promise<z.output<typeof Location>> {
  const call = { method: 'GET', path: '/v1/private-locations', signal } as const
  const known = await askPublicApi(target, call, z.array(Location))
  const found = known.find((one) => one.slugName === slugName)
  if (found !== undefined) return found
  const names = known.map((one) => one.slugName).toSorted()
  const there = names.length === 0 ? 'there is none' : `there are ${names.join(', ')}`
  throw new PlatformError('refused', `unknown private location “${slugName}”; ${there}`)
}

const Changing = z.object({ runtimeId: z.string().nullable(), updated_at: z.string().nullable() })

/** Writes the new runtime of a check or a group; resolves with a problem if that has changed since `updatedAt`. */
export async function changeRuntime(
  { target, signal }: Api,
  path: string,
  move: Move,
  updatedAt: string | null,
): Promise<string | undefined> {
  const now = await askPublicApi(target, { method: 'GET', path, signal }, Changing)
  if (now.updated_at !== updatedAt || now.runtimeId !== move.from) {
    return 'it has changed on the platform since it was run; run this again'
  }
  const body = { runtimeId: move.to }
  await askPublicApi(target, { method: 'PATCH', path, body, signal }, Changing)
  return undefined
}

const GroupRead = z.looseObject({
  ...CheckGroup.shape,
  id: z.int(),
  updated_at: z.string().nullable(),
})
type GroupRead = z.infer<typeof GroupRead>

const CheckRead = z.looseObject({ ...Monitor.shape, updated_at: z.string().nullable() })
type CheckRead = z.infer<typeof CheckRead>

const checkPath = ({ id }: CheckRead) => `/v1/checks/${id}`
const groupPath = ({ id }: GroupRead) => `/v1/check-groups/${id}`

interface EffectiveCheck {
  effective: Monitor
  place: RuntimePlace | undefined
}

function effectiveCheck(check: CheckRead, groups: ReadonlyMap<number, GroupRead>): EffectiveCheck {
  const { groupId, name, runtimeId } = check
  const group = typeof groupId === 'number' ? groups.get(groupId) : undefined
  // The schemas of definitions reject what the platform adds to them.
  const { created_at: _, updated_at: __, ...definition } = check
  const effective = effectiveMonitor(definition, group)
  if (runtimeId !== null) return { effective, place: { key: checkPath(check), label: `“${name}”` } }
  const inherits = group !== undefined && group.runtimeId !== null
  const place = inherits ? { key: groupPath(group), label: `the group “${group.name}”` } : undefined
  return { effective, place }
}

const isOn = ({ effective }: EffectiveCheck, runtime: string) =>
  needsOf(effective).includes(`runtime:${runtime}`)
