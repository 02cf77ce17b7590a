// Migration source: the scripted monitors of a platform, through its public API.
import * as z from 'zod'
import { AccountVariable } from '../../contract/api/account-variable.ts'
import { effectiveMonitor, needsOf } from '../../monitors/definitions.ts'
import { CheckGroup } from '../../contract/api/check-group.ts'
import { SECRET_MASK } from '../../contract/api/resource.ts'
import { Monitor, type Variable } from '../../contract/monitor.ts'
import type { Environment } from '../../process/env.ts'
import type { Candidate, MigrationSource, Move, RuntimePlace, Written } from './migration.ts'
import type { MigrationApi } from './api.ts'
import { fillSecrets, readSecrets, withValue } from './secrets.ts'

/** Selection of the monitors, and settings of their runs. */
export interface PlatformMigrationOptions {
  api: MigrationApi
  env: Environment
  /** Slug name of a private location; undefined: the monitors of all of them. */
  location: string | undefined
  /** The location that scripts see where none is named. */
  defaultLocation: string
  move: Move
}

/** Reads all that is needed; `warnings` are for people. Rejects with MigrationError. */
export async function migrationOfPlatform(
  options: PlatformMigrationOptions,
): Promise<{ source: MigrationSource; warnings: string[] }> {
  const { api, env, location, move } = options
  const place = location === undefined ? undefined : await api.location(location)
  const groups = new Map(
    (await api.list('/v1/check-groups', GroupRead)).map((one) => [one.id, one]),
  )
  const account = await api.list('/v1/variables', AccountVariable)
  const checks = await api.list('/v1/checks', CheckRead)
  const whole = checks.map((one) => effectiveCheck(one, groups))
  const own = whole.flatMap((one) => one.effective.environmentVariables)
  const secrets = await readSecrets([...account, ...own], env)
  const isHere = ({ effective }: EffectiveCheck) =>
    location === undefined || (effective.privateLocations ?? []).includes(location)
  const [here, elsewhere] = [whole.filter(isHere), whole.filter((one) => !isHere(one))]
  const others = Map.groupBy(
    elsewhere.filter((one) => isOn(one, move.from)),
    (one) => one.place?.key,
  )
  const candidates = here
    .filter((one) => isOn(one, move.from))
    .map((one) => candidateOf(one, { account, secrets, others, location }))
    .toSorted((one, other) => one.monitor.name.localeCompare(other.monitor.name))
  const { proxyUrl, warnings } = proxyOf(place?.proxyUrl ?? null, location)
  const source: MigrationSource = {
    snapshot: {
      location: location ?? options.defaultLocation,
      variables: account.map((one) => withValue(one, secrets)),
      monitors: [],
      ...(proxyUrl === undefined ? {} : { proxyUrl }),
    },
    candidates,
    movedAlready: here.filter((one) => isOn(one, move.to)).length,
    write: (places) => write(api, places, { move, changes: changesOf(checks, groups) }),
  }
  return { source, warnings }
}

const GroupRead = z.looseObject({
  ...CheckGroup.shape,
  id: z.int(),
  updated_at: z.string().nullable(),
})
type GroupRead = z.infer<typeof GroupRead>

const CheckRead = z.looseObject({ ...Monitor.shape, updated_at: z.string().nullable() })
type CheckRead = z.infer<typeof CheckRead>

/** Times of the last change as read, by the key of the place. */
function changesOf(
  checks: readonly CheckRead[],
  groups: ReadonlyMap<number, GroupRead>,
): Map<string, string | null> {
  return new Map([
    ...checks.map((one) => [`check ${one.id}`, one.updated_at] as const),
    ...[...groups].map(([id, one]) => [`group ${id}`, one.updated_at] as const),
  ])
}

interface EffectiveCheck {
  effective: Monitor
  place: RuntimePlace | undefined
}

/** Fields that the platform adds to a definition; the schemas of definitions reject them. */
const ADDED: ReadonlySet<string> = new Set(['created_at', 'updated_at'])

function effectiveCheck(check: CheckRead, groups: ReadonlyMap<number, GroupRead>): EffectiveCheck {
  const { groupId, name, id, runtimeId } = check
  const group = typeof groupId === 'number' ? groups.get(groupId) : undefined
  const definition = Object.fromEntries(
    Object.entries(check).filter(([key]) => !ADDED.has(key)),
  ) as Monitor
  const effective = effectiveMonitor(definition, group)
  if (runtimeId !== null) return { effective, place: { key: `check ${id}`, label: `“${name}”` } }
  const inherits = group !== undefined && group.runtimeId !== null
  if (!inherits) return { effective, place: undefined }
  const place = { key: `group ${group.id}`, label: `the group “${group.name}”` }
  return { effective, place }
}

const isOn = ({ effective }: EffectiveCheck, runtime: string) =>
  needsOf(effective).includes(`runtime:${runtime}`)

interface CandidateContext {
  account: readonly Variable[]
  secrets: ReadonlyMap<string, string>
  /** Monitors of other locations by their place. */
  others: ReadonlyMap<string | undefined, EffectiveCheck[]>
  location: string | undefined
}

function candidateOf({ effective, place }: EffectiveCheck, context: CandidateContext): Candidate {
  const { account, secrets, others, location } = context
  const { monitor, missing } = fillSecrets(effective, { account, secrets })
  const [other] = others.get(place?.key) ?? []
  const obstacle =
    other === undefined
      ? {}
      : { obstacle: `“${other.effective.name}” inherits it from there and is not in ${location}` }
  return {
    monitor,
    ...(place === undefined ? {} : { place: { ...place, ...obstacle } }),
    ...(missing === undefined ? {} : { missing }),
  }
}

function proxyOf(
  proxyUrl: string | null,
  location: string | undefined,
): { proxyUrl?: string; warnings: string[] } {
  if (proxyUrl === null) return { warnings: [] }
  if (!proxyUrl.includes(SECRET_MASK)) return { proxyUrl, warnings: [] }
  const warning = `agents of ${location} go out through a proxy whose password is not shown; here monitors run without it`
  return { warnings: [warning] }
}

async function write(
  api: MigrationApi,
  places: readonly RuntimePlace[],
  { move, changes }: { move: Move; changes: ReadonlyMap<string, string | null> },
): Promise<Written> {
  const failed = new Map<string, string>()
  for (const { key } of places) {
    const [kind, id = ''] = key.split(' ')
    const path = kind === 'group' ? `/v1/check-groups/${id}` : `/v1/checks/${id}`
    const problem = await api
      .change(path, move, changes.get(key) ?? null)
      .catch((error: Error) => error.message)
    if (problem !== undefined) failed.set(key, problem)
  }
  return { failed }
}
