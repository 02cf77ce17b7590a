// The platform's image in a container, by default with its own PostgreSQL, and requests of tests to its public API.
import { randomBytes, randomUUID } from 'node:crypto'
import { type Contained, type ContainerOptions, startContainer } from './contained.ts'
import { eventually } from '../eventually.ts'

/** A private location with the key of its agents. */
export interface ContainedLocation {
  id: string
  key: string
  keyId: string
}

/** A platform that answers. */
export interface ContainedPlatform extends Contained {
  /** Its URL for agents in its network. */
  url: string
  /** Calls the public API; throws with the body where the status is 400 or above. */
  api<T>(method: string, path: string, body?: unknown): Promise<T>
  createLocation(slugName: string): Promise<ContainedLocation>
}

/** Starts it as `platform` in a network, and waits until it is ready; `options` override the defaults. */
export async function startPlatformContainer(
  network: string,
  env: Record<string, string> = {},
  options: Partial<ContainerOptions> = {},
): Promise<ContainedPlatform> {
  const accountId = randomUUID()
  const apiKey = `vd_${randomBytes(24).toString('base64url')}`
  const contained = await startContainer({
    image: 'platform',
    network,
    alias: 'platform',
    ...options,
    env: { ACCOUNT_ID: accountId, ADMIN_API_KEY: apiKey, RATE_LIMIT: '1000000', ...env },
  })
  await contained.line(({ msg }) => msg === 'platform started')
  const readiness = () => contained.probe('/-/readiness', 3000)
  await eventually(async () => (await readiness()).status === 200, { what: 'the platform' })
  const api = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const response = await fetch(`http://${contained.address}:3000${path}`, {
      method,
      headers: {
        authorization: `Bearer ${apiKey}`,
        'x-service-account': accountId,
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
    return (text === '' ? undefined : JSON.parse(text)) as T
  }
  const createLocation = async (slugName: string): Promise<ContainedLocation> => {
    const body = { name: slugName, slugName }
    const { id } = await api<{ id: string }>('POST', '/v1/private-locations', body)
    const path = `/v1/private-locations/${id}/keys`
    const made = await api<{ id: string; rawKey: string }>('POST', path)
    return { id, key: made.rawKey, keyId: made.id }
  }
  return { ...contained, url: 'http://platform:3000', api, createLocation }
}
