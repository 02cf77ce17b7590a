// Parameters of paths that many operations share.
import { z } from '@hono/zod-openapi'

/** The GUID of a thing in the path, in lower case. */
export function idParameter(what: string) {
  return z
    .guid()
    .transform((id) => id.toLowerCase())
    .openapi({ type: 'string', format: 'uuid', description: `Id of the ${what}` })
}

/** What the router takes for a number in the path. */
export const NUMBER_LIKE = '\\d{1,15}'

/** The number of a thing in the path; its operation says `looks: {name: NUMBER_LIKE}`. */
export function numberParameter(what: string) {
  return z
    .string()
    .regex(/^\d{1,15}$/)
    .transform(Number)
    .openapi({ type: 'integer', minimum: 1, description: `Id of the ${what}` })
}
