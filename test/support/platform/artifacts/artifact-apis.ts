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
export type ArtifactScene = { client: ApiClient } & Awaited<ReturnType<typeof addOwner>>

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
  let store: ArtifactStore
  const { api, addClient } = servePublicApi(database, () => {
    store = make()
    return {
      operations: artifactOperations({ database: db(), store, retentionMs: 86_400_000 }),
      defaultLimit: { limit: 1e6, windowS: 60 },
    }
  })
  beforeAll(async () => {
    server = await startArtifactServer(db(), store)
  })
  afterAll(() => server.close())
  const scene = async (): Promise<ArtifactScene> => {
    const client = await addClient()
    return { client, ...(await addOwner(db(), client.accountId)) }
  }
  const put = (one: ArtifactScene, more: Partial<Upload> & Pick<Upload, 'body'>) =>
    bring({ port: server.port, secret: one.secret, owner: one.owner, name: 'a.zip', ...more })
  const begin = (one: ArtifactScene, headers: Record<string, string>) =>
    beginUpload({ port: server.port, secret: one.secret, owner: one.owner, name: 'a.zip', headers })
  const listed = (one: ArtifactScene) => artifactsOf(db(), one.location.id, one.owner)
  const get = (one: ArtifactScene, id: string, headers: Record<string, string> = {}) =>
    fetch(`${api().url}/v1/artifacts/${id}`, {
      headers: {
        authorization: `Bearer ${one.client.secret}`,
        'x-service-account': one.client.accountId,
        ...headers,
      },
    })
  return { scene, put, begin, listed, get, store: () => store }
}
