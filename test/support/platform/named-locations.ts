// Private locations made through the public API, for tests that refer to them by name.
import type { ApiClient } from './public-api.ts'

/** Makes a location of that slug name; returns its id. */
export async function makeLocation(client: ApiClient, slugName: string): Promise<string> {
  const body = { name: slugName, slugName }
  const made = await client.call<{ id: string }>('POST', '/v1/private-locations', { body })
  if (made.status !== 201) throw new Error(`the location was answered with ${made.text}`)
  return made.body.id
}
