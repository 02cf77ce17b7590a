// Parameters of paths that many operations share.
import { z } from '@hono/zod-openapi'

/** The GUID of a thing in the path, in lower case. */
export function idParameter(what: string) {
  return z
    .guid()
    .transform((id) => id.toLowerCase())
    .openapi({ type: 'string', format: 'uuid', description: `Id of the ${what}` })
}
