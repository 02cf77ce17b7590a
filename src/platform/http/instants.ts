// Instants and lists of names in queries of the public API, as the contract spells them.
import { z } from '@hono/zod-openapi'

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
