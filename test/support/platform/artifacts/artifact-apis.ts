// Both APIs on a store of files: one to upload files, the other to download them.
import { existsSync, readdirSync } from 'node:fs'
import { afterAll, beforeAll } from 'vitest'
import type { ArtifactStore } from '../../../../src/platform/artifacts/store.ts'
import { artifactOperations } from '../../../../src/platform/artifacts/routes.ts'
import { artifactsOf } from '../../../../src/platform/artifacts/queries.ts'
import { beginUpload, bring, type Upload } from './artifact-uploads.ts'
import { type AgentsApi, startAgentsApi } from '../agents-api.ts'
import type { useDatabase } from '../../database/database.ts'
import type { Database } from '../../../../src/database/database.ts'
import { addLocation } from '../locations.ts'
import { addMonitor } from '../monitor-rows.ts'
import { servePublicApi, type ApiClient } from '../public-api.ts'

/** A slot of a monitor that may have files, and a key of its location. */
export async function addOwner(database: Database, accountId: string) {
  const location = await addLocation(database, { accountId })
  const monitorId = await addMonitor(database, accountId, { locations: [location] })
  const { secret } = location
  return { location, monitorId, secret, owner: `${monitorId}.1760000000000` }
}

/** Common parts of the files of a test. */
type ArtifactScene = { client: ApiClient } & Awaited<ReturnType<typeof addOwner>>

/** Names of all files below a folder, which may be missing. */
export function filesBelow(folder: string): string[] {
  if (!existsSync(folder)) return []
  const all = readdirSync(folder, { recursive: true, encoding: 'utf8', withFileTypes: true })
  return all.filter((one) => one.isFile()).map(({ name }) => name)
}

/** Starts both APIs on a store; returns the uploader. */
export function useArtifactApis(
  database: ReturnType<typeof useDatabase>,
  make: () => ArtifactStore,
) {
  const db = () => database().database
  let server: AgentsApi
  let store: ArtifactStore
  const { api, addClient } = servePublicApi(database, () => {
    store = make()
    return { operations: artifactOperations({ database: db(), store, retentionMs: 86_400_000 }) }
  })
  beforeAll(async () => {
    server = await startAgentsApi(database(), { artifacts: store, logOutage: () => {} })
  })
  afterAll(() => server.close())
  const scene = async (): Promise<ArtifactScene> => {
    const client = await addClient()
    return { client, ...(await addOwner(db(), client.accountId)) }
  }
  const upload = ({ secret, owner }: ArtifactScene) =>
    ({ port: server.port, secret, owner, name: 'a.zip' }) as const
  const put = (one: ArtifactScene, more: Partial<Upload> & Pick<Upload, 'body'>) =>
    bring({ ...upload(one), ...more })
  const begin = (one: ArtifactScene, headers: Record<string, string>) =>
    beginUpload({ ...upload(one), headers })
  const listed = (one: ArtifactScene) => artifactsOf(db(), one.location.id, one.owner)
  const get = (
    { client: { secret, accountId } }: ArtifactScene,
    id: string,
    { headers, ...init }: Omit<RequestInit, 'headers'> & { headers?: Record<string, string> } = {},
  ) => {
    const own = { authorization: `Bearer ${secret}`, 'x-service-account': accountId }
    return fetch(`${api().url}/v1/artifacts/${id}`, { ...init, headers: { ...own, ...headers } })
  }
  /** Gets the first file. */
  const download = async (one: ArtifactScene, init?: Parameters<typeof get>[2]) =>
    get(one, (await listed(one))[0]?.id ?? '', init)
  return { scene, put, begin, listed, get, download, store: () => store }
}
