// Draft of a definition: checks a client's input by the schema of its type and replaces masked secrets by
// their stored values.
import { randomUUID } from 'node:crypto'
import type * as z from 'zod'
import {
  type DefinedType,
  DEFINED_TYPES,
  definitionOf,
  typeProblem,
} from '../../monitors/definitions.ts'
import { CheckGroup, groupVariables } from '../../contract/api/check-group.ts'
import { type Lookup, substituteOwn } from '../../contract/variables.ts'
import { type DraftProblem, problemsOf } from '../http/draft-problem.ts'
import type { CheckContext } from './effective.ts'
import { unmaskSecrets } from './masked-secrets.ts'
import type { Definition } from './encrypted-monitor.ts'

export type Draft<T = object> =
  ({ ok: true; definition: Definition } & T) | { ok: false; problems: DraftProblem[] }

/** Placeholder for the id during validation: definitions are stored without it. */
const ANY_ID = '00000000-0000-4000-8000-000000000000'

export interface DraftContext {
  /** The stored definition, whose secrets replace masks. */
  stored: Readonly<Definition> | undefined
  checkContext: Pick<CheckContext, 'groups' | 'variables'>
}

/** Checks the definition of a monitor of `checkType`, without its id. */
export function draftCheck(
  checkType: DefinedType,
  body: Readonly<Definition>,
  { stored, checkContext }: DraftContext,
): Draft {
  const { id: _, created_at: _created, updated_at: _updated, ...given } = body
  const named = given['checkType']
  if (named !== undefined && named !== checkType) {
    return refused(['checkType'], `must be ${checkType} here; the type of a monitor never changes`)
  }
  // Before the schema, which validates the value of a secret, not its mask.
  const { definition, problems } = unmaskSecrets(
    { ...given, checkType, ...pinged(given, stored) },
    stored,
  )
  if (problems.length > 0) return { ok: false, problems }
  const written = { ...definition, id: ANY_ID }
  // The schema validates the values of variables; the text with variables is stored.
  const { value } = substituteOwn(written, lookupFor(definition, checkContext))
  const draft = parsed(definitionOf(checkType).schema, value)
  if (!draft.ok) return draft
  const { id: _any, ...whole } = restored(draft.definition, value, written) as Definition
  const found = references(whole)
  return found.length > 0 ? { ok: false, problems: found } : { ok: true, definition: whole }
}

/** The address of a heartbeat must not change: an omitted token is taken from the stored definition, or created. */
function pinged(given: Definition, stored: Readonly<Definition> | undefined): Definition {
  const { heartbeat } = given
  if (typeof heartbeat !== 'object' || heartbeat === null || 'pingToken' in heartbeat) return {}
  const before = stored?.['heartbeat'] as { pingToken?: unknown } | undefined
  return { heartbeat: { ...heartbeat, pingToken: before?.pingToken ?? randomUUID() } }
}

/** Checks a definition that names its own type. */
export function draftAnyCheck(
  body: Readonly<Definition>,
  context: DraftContext,
): Draft<{ checkType: DefinedType }> {
  const checkType = DEFINED_TYPES.find((one) => one === body['checkType'])
  if (checkType === undefined) {
    return refused(['checkType'], typeProblem(body['checkType']) ?? 'is not known')
  }
  const draft = draftCheck(checkType, body, context)
  return draft.ok ? { ...draft, checkType } : draft
}

/** Checks the definition of a group. */
export function draftGroup(body: Readonly<Definition>, stored?: Readonly<Definition>): Draft {
  const { id: _, created_at: _created, updated_at: _updated, ...given } = body
  const { definition, problems } = unmaskSecrets(given, stored)
  if (problems.length > 0) return { ok: false, problems }
  const draft = parsed(CheckGroup, definition)
  if (!draft.ok) return draft
  const found = references(draft.definition)
  return found.length > 0 ? { ok: false, problems: found } : draft
}

/** Variables in an agent's order: those of the monitor, its group, and the account. */
function lookupFor(
  definition: Definition,
  { groups, variables }: DraftContext['checkContext'],
): Lookup {
  const { groupId } = definition
  const group = typeof groupId === 'number' ? groups.get(groupId) : undefined
  const own = listOf(definition['environmentVariables']) as { key?: unknown; value?: unknown }[]
  const near = [...own, ...(group === undefined ? [] : groupVariables(group))]
  return (name) => {
    const found = near.find((one) => one?.key === name)?.value
    return typeof found === 'string' ? found : variables.get(name)
  }
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : []
}

function parsed(schema: z.ZodType, value: Definition): Draft {
  const result = schema.safeParse(value)
  if (result.success) return { ok: true, definition: result.data as Definition }
  return { ok: false, problems: problemsOf(result.error, schema, value) }
}

/** Restores texts with variables where validation used their values. */
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

/** Problems of `{ref}`: references are allowed only in a deployment. */
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
