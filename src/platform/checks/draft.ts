// From what a client sends to a definition that can be kept: checked by the schema of its type, with the
// secrets that it left masked put back.
import { randomUUID } from 'node:crypto'
import type * as z from 'zod'
import {
  type DefinedType,
  DEFINED_TYPES,
  definitionOf,
  typeProblem,
} from '../../monitors/definitions.ts'
import { CheckGroup } from '../../contract/api/check-group.ts'
import { type Lookup, substituteOwn } from '../../contract/variables.ts'
import { type DraftProblem, problemsOf } from '../http/draft-problem.ts'
import type { CheckContext } from './effective.ts'
import { unmaskSecrets } from './masked-secrets.ts'
import type { Definition } from './encrypted-monitor.ts'

/** A definition that fits its schema, or what is wrong with it. */
export type Draft<T = object> =
  ({ ok: true; definition: Definition } & T) | { ok: false; problems: DraftProblem[] }

/** Stands for the id while the schema looks at a definition, which is kept without. */
const ANY_ID = '00000000-0000-4000-8000-000000000000'

/** What a definition is checked beside. */
export interface DraftContext {
  /** What is there already; masks stand for its secrets. */
  kept: Readonly<Definition> | undefined
  checkContext: Pick<CheckContext, 'groups' | 'variables'>
}

/** Checks the definition of a monitor of `checkType`, without its id. */
export function draftCheck(
  checkType: DefinedType,
  body: Readonly<Definition>,
  { kept, checkContext }: DraftContext,
): Draft {
  const { id: _, created_at: _created, updated_at: _updated, warning: _warning, ...given } = body
  const named = given['checkType']
  if (named !== undefined && named !== checkType) {
    return refused(['checkType'], `must be ${checkType} here; the type of a monitor never changes`)
  }
  // Before the schema: what a secret has to look like is true of the value, not of its mask.
  const { definition, problems } = unmaskSecrets(
    { ...given, checkType, ...pinged(given, kept) },
    kept,
  )
  if (problems.length > 0) return { ok: false, problems }
  const written = { ...definition, id: ANY_ID }
  // What a text has to look like is true of its variables' values, and what is kept is the text.
  const { value } = substituteOwn(written, lookupFor(definition, checkContext))
  const draft = parsed(definitionOf(checkType).schema, value)
  if (!draft.ok) return draft
  const { id: _any, ...whole } = restored(draft.definition, value, written) as Definition
  const found = references(whole)
  return found.length > 0 ? { ok: false, problems: found } : { ok: true, definition: whole }
}

/** What pings a heartbeat's address must go on doing so: a token that is left out is kept, or made. */
function pinged(given: Definition, kept: Readonly<Definition> | undefined): Definition {
  const { heartbeat } = given
  if (typeof heartbeat !== 'object' || heartbeat === null || 'pingToken' in heartbeat) return {}
  const before = kept?.['heartbeat'] as { pingToken?: unknown } | undefined
  return { heartbeat: { ...heartbeat, pingToken: before?.pingToken ?? randomUUID() } }
}

/** Checks a definition that names its own type. */
export function draftAnyCheck(
  body: Readonly<Definition>,
  beside: DraftContext,
): Draft<{ checkType: DefinedType }> {
  const checkType = DEFINED_TYPES.find((one) => one === body['checkType'])
  if (checkType === undefined) {
    return refused(['checkType'], typeProblem(body['checkType']) ?? 'is not known')
  }
  const draft = draftCheck(checkType, body, beside)
  return draft.ok ? { ...draft, checkType } : draft
}

/** Checks the definition of a group. */
export function draftGroup(body: Readonly<Definition>, kept?: Readonly<Definition>): Draft {
  const { id: _, created_at: _created, updated_at: _updated, ...given } = body
  const { definition, problems } = unmaskSecrets(given, kept)
  if (problems.length > 0) return { ok: false, problems }
  const draft = parsed(CheckGroup, definition)
  if (!draft.ok) return draft
  const found = references(draft.definition)
  return found.length > 0 ? { ok: false, problems: found } : draft
}

/** Variables as an agent finds them: the monitor's own, those of its group, those of the account. */
function lookupFor(
  definition: Definition,
  { groups, variables }: DraftContext['checkContext'],
): Lookup {
  const { groupId } = definition
  const group = typeof groupId === 'number' ? groups.get(groupId) : undefined
  const baseUrl = { key: 'GROUP_BASE_URL', value: group?.apiCheckDefaults?.url ?? '' }
  const near = [
    ...listOf(definition['environmentVariables']),
    ...(group?.environmentVariables ?? []),
    ...(baseUrl.value === '' ? [] : [baseUrl]),
  ] as { key?: unknown; value?: unknown }[]
  return (name) => {
    const found = near.find((one) => one?.key === name)?.value
    return typeof found === 'string' ? found : variables.get(name)
  }
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : []
}

function parsed(schema: z.ZodType | undefined, value: Definition): Draft {
  if (schema === undefined) return refused(['checkType'], 'is not known')
  const result = schema.safeParse(value)
  if (result.success) return { ok: true, definition: result.data as Definition }
  return { ok: false, problems: problemsOf(result.error, schema, value) }
}

/** Puts the texts with variables back where their values stood while the schema looked. */
function restored(value: unknown, substituted: unknown, written: unknown): unknown {
  if (substituted === written) return value
  if (typeof written === 'string') return written
  if (Array.isArray(value)) {
    const [from, to] = [listOf(substituted), listOf(written)]
    return value.map((item, index) => restored(item, from[index], to[index]))
  }
  if (typeof value !== 'object' || value === null) return value
  const [from, to] = [(substituted ?? {}) as Definition, (written ?? {}) as Definition]
  return Object.fromEntries(
    Object.entries(value).map(([key, field]) => [key, restored(field, from[key], to[key])]),
  )
}

/** `{ref}` names a thing of a deployment; here there is none. */
function references(definition: Definition): DraftProblem[] {
  const problems: DraftProblem[] = []
  const look = (value: unknown, path: (string | number)[]) => {
    if (typeof value !== 'object' || value === null || !('ref' in value)) return
    problems.push({ path, message: 'must be an id; references need a deployment' })
  }
  look(definition['groupId'], ['groupId'])
  const incident = definition['triggerIncident'] as Definition | null | undefined
  look(incident?.['serviceId'], ['triggerIncident', 'serviceId'])
  const subscriptions = (definition['alertChannelSubscriptions'] ?? []) as Definition[]
  for (const [index, one] of subscriptions.entries()) {
    look(one['alertChannelId'], ['alertChannelSubscriptions', index, 'alertChannelId'])
  }
  return problems
}

function refused(
  path: DraftProblem['path'],
  message: string,
): { ok: false; problems: DraftProblem[] } {
  return { ok: false, problems: [{ path, message }] }
}
