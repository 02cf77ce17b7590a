// Both APIs on a store of files: one to upload files, the other to download them.
import { existsSync, readdirSync } from 'node:fs'
import { afterAll, beforeAll } from 'vitest'
import type { ArtifactStore } from '../../../../src/platform/artifacts/store.ts'
import { artifactOperations } from '../../../../src/platform/artifacts/routes.ts'
import { artifactsOf } from '../../../../src/platform/artifacts/queries.ts'
import {
  beginUpload,
  bring,
  startArtifactServer,
  type ArtifactServer,
  type Upload,
} from './artifact-uploads.ts'
import type { useDatabase } from '../../database/database.ts'
import { addLocation, addLocationKey, addMonitor, type LocationRow } from '../monitor-rows.ts'
import { addClient, startPublicApi, type ApiClient, type PublicApi } from '../public-api.ts'

/** Common parts of the files of a test. */
export interface ArtifactScene {
  client: ApiClient
  location: LocationRow
  monitorId: string
  secret: string
  owner: string
}

/** Names of all files below a folder, which may be missing. */
export const filesBelow = (folder: string): string[] =>
  existsSync(folder)
    ? readdirSync(folder, { recursive: true, encoding: 'utf8', withFileTypes: true })
        .filter((one) => one.isFile())
        .map((one) => one.name)
    : []

/** Starts both APIs on a store; returns the uploader. */
export function useArtifactApis(
  database: ReturnType<typeof useDatabase>,
  make: () => ArtifactStore,
) {
  const db = () => database().database
  let server: ArtifactServer
  let api: PublicApi
  let store: ArtifactStore
  beforeAll(async () => {
    store = make()
    server = await startArtifactServer(db(), store)
    const operations = artifactOperations({ database: db(), store, retentionMs: 86_400_000 })
    api = await startPublicApi(db(), { operations, defaultLimit: { limit: 1e6, windowS: 60 } })
  })
  afterAll(() => Promise.all([server.close(), api.close()]))
  const scene = async (): Promise<ArtifactScene> => {
    const client = await addClient(api, db())
    const location = await addLocation(db(), client.accountId)
    const monitorId = await addMonitor(db(), client.accountId, { locations: [location] })
    const { secret } = await addLocationKey(db(), location.id)
    return { client, location, monitorId, secret, owner: `${monitorId}.1760000000000` }
  }
  const put = (one: ArtifactScene, more: Partial<Upload> & Pick<Upload, 'body'>) =>
    bring({ port: server.port, secret: one.secret, owner: one.owner, name: 'a.zip', ...more })
  const begin = (one: ArtifactScene, headers: Record<string, string>) =>
    beginUpload({ port: server.port, secret: one.secret, owner: one.owner, name: 'a.zip', headers })
  const listed = (one: ArtifactScene) => artifactsOf(db(), one.location.id, one.owner)
  const get = (one: ArtifactScene, id: string, headers: Record<string, string> = {}) =>
    fetch(`${api.url}/v1/artifacts/${id}`, {
      headers: {
        authorization: `Bearer ${one.client.secret}`,
        'x-service-account': one.client.accountId,
        ...headers,
      },
    })
  return { scene, put, begin, listed, get, store: () => store }
}
