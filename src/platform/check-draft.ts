// From what a client sends to a definition that can be kept: checked by the schema of its type, with the
// secrets that it left masked put back.
import type * as z from 'zod'
import { schemaFor } from '../contract/check-definition.ts'
import { CheckGroup } from '../contract/check-group.ts'
import { CHECK_PATHS, isKept, type KeptCheckType } from '../contract/check.ts'
import { unmaskSecrets } from './masked-secrets.ts'
import type { Definition } from './sealed-monitor.ts'

/** Something that is wrong with a definition. */
export interface DraftProblem {
  /** From the definition's root. */
  path: (string | number)[]
  message: string
}

/** A definition that fits its schema, or what is wrong with it. */
export type Draft<T = object> =
  ({ ok: true; definition: Definition } & T) | { ok: false; problems: DraftProblem[] }

/** Stands for the id while the schema looks at a definition, which is kept without. */
const ANY_ID = '00000000-0000-4000-8000-000000000000'

/**
 * Checks the definition of a monitor of `checkType`, without its id. `kept` is what is there already;
 * masks stand for its secrets.
 */
export function draftCheck(
  checkType: KeptCheckType,
  body: Readonly<Definition>,
  kept?: Readonly<Definition>,
): Draft {
  const { id: _, created_at: _created, updated_at: _updated, ...given } = body
  const named = given['checkType']
  if (named !== undefined && named !== checkType) {
    return refused(['checkType'], `must be ${checkType} here; the type of a monitor never changes`)
  }
  const draft = drafted(schemaFor(checkType), { ...given, id: ANY_ID, checkType }, kept)
  if (!draft.ok) return draft
  const { id: _any, ...definition } = draft.definition
  const problems = references(definition)
  return problems.length > 0 ? { ok: false, problems } : { ok: true, definition }
}

/** Checks a definition that names its own type. */
export function draftAnyCheck(
  body: Readonly<Definition>,
  kept?: Readonly<Definition>,
): Draft<{ checkType: KeptCheckType }> {
  const checkType = body['checkType']
  if (!isKept(checkType)) {
    const known = Object.keys(CHECK_PATHS).join(', ')
    return refused(['checkType'], `must be one of ${known}`)
  }
  const draft = draftCheck(checkType, body, kept)
  return draft.ok ? { ...draft, checkType } : draft
}

/** Checks the definition of a group. */
export function draftGroup(body: Readonly<Definition>, kept?: Readonly<Definition>): Draft {
  const { id: _, created_at: _created, updated_at: _updated, ...given } = body
  const draft = drafted(CheckGroup, given, kept)
  if (!draft.ok) return draft
  const problems = references(draft.definition)
  return problems.length > 0 ? { ok: false, problems } : draft
}

function drafted(schema: z.ZodType, given: Definition, kept: Definition | undefined): Draft {
  // Before the schema: what a secret has to look like is true of the value, not of its mask.
  const { definition, problems } = unmaskSecrets(given, kept)
  if (problems.length > 0) return { ok: false, problems }
  const result = schema.safeParse(definition)
  if (result.success) return { ok: true, definition: result.data as Definition }
  return { ok: false, problems: result.error.issues.map(problemOf) }
}

function problemOf({ path, message }: z.core.$ZodIssue): DraftProblem {
  return { path: path.map((part) => (typeof part === 'number' ? part : String(part))), message }
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

const PROBLEMS_SHOWN = 5
const MESSAGE_CHARACTERS_MAX = 1_000

/** Problems as one message. */
export function problemWords(problems: readonly DraftProblem[]): string {
  const lines = problems
    .slice(0, PROBLEMS_SHOWN)
    .map(({ path, message }) => (path.length === 0 ? message : `${path.join('.')}: ${message}`))
  return lines.join('; ').slice(0, MESSAGE_CHARACTERS_MAX).toWellFormed()
}
