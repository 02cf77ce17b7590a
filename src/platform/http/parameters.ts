// Parameters of paths and queries that many operations share.
import { z } from '@hono/zod-openapi'

/** The GUID of a thing in the path, in lower case. */
export function idParameter(what: string) {
  return z
    .guid()
    .transform((id) => id.toLowerCase())
    .openapi({ type: 'string', format: 'uuid', description: `Id of the ${what}` })
}

/** `true` or `false` in a query; SDKs send `1` as well. */
export function booleanParameter(description: string) {
  return z
    .enum(['true', 'false', '1', '0'])
    .transform((text) => text === 'true' || text === '1')
    .optional()
    .openapi({ type: 'boolean', description })
}

/** The number of an alert channel in a query. */
export function channelIdParameter(description: string) {
  return z
    .string()
    .regex(/^\d{1,15}$/, { error: 'must be the number of an alert channel' })
    .transform(Number)
    .optional()
    .openapi({ type: 'integer', minimum: 1, description })
}

const TEXTS_MAX = 100

/** Texts in a query; its operation names the parameter in `lists`. */
export function textsParameter(description: string) {
  return z
    .array(z.string().min(1))
    .max(TEXTS_MAX)
    .optional()
    .openapi({ type: 'array', items: { type: 'string' }, description })
}

/** `autoAssignAlerts`, which clients of check and group writes send. */
export const assignQuery = {
  autoAssignAlerts: booleanParameter(
    'Accepted for clients that send it. Channels with `autoSubscribe` are notified of checks without subscriptions, whatever it says.',
  ),
}

/** The number of a thing in the path. */
export function numberParameter(what: string) {
  return z
    .string()
    .regex(/^\d{1,15}$/)
    .transform(Number)
    .openapi({ type: 'integer', minimum: 1, description: `Id of the ${what}` })
}

/** Seconds since the Unix epoch in a query; becomes milliseconds. */
export function unixSeconds(description: string) {
  return z
    .string()
    .regex(/^\d{1,11}$/, { error: 'must be whole seconds since the Unix epoch' })
    .transform((text) => Number(text) * 1000)
    .optional()
    .openapi({ type: 'integer', minimum: 0, description })
}

/** Items of `names` with commas between them, once or several times; becomes the list of those given. */
export function namesParameter<Name extends string>(names: readonly Name[], description: string) {
  const known: ReadonlySet<string> = new Set(names)
  return z
    .union([z.string(), z.array(z.string())])
    .transform((texts, context) => {
      const given = [...new Set([texts].flat().join(',').split(','))]
      if (given.every((one): one is Name => known.has(one))) return given
      context.addIssue({ code: 'custom', message: `must be some of ${names.join(', ')}` })
      return z.NEVER
    })
    .optional()
    .openapi({ type: 'string', description: `${description}: some of ${names.join(', ')}` })
}
