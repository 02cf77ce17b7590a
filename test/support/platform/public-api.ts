// The public API on a real database and a real port, with clients of every role. Each answer is checked against the
// API's own document.
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { afterAll, beforeAll } from 'vitest'
import type { Role } from '../../../src/contract/api/account.ts'
import { createApp, type App, type AppOptions } from '../../../src/platform/app.ts'
import { createHttpServer } from '../../../src/platform/http/http-server.ts'
import { createCipher } from '../../../src/platform/secrets/cipher.ts'
import { createAccount } from '../../../src/platform/accounts/queries/accounts.ts'
import { ensureApiKey } from '../../../src/platform/accounts/queries/api-keys.ts'
import type { Database } from '../../../src/database/database.ts'
import { type DatabaseServer, useDatabase } from '../database/database.ts'
import { collectingLog } from '../collecting-log.ts'
import { listening } from '../test-server.ts'
import {
  callApi,
  checkAgainst,
  type ApiAnswer,
  type ApiDocument,
  type ApiRequest,
  type CheckAnswer,
  type Loose,
} from './api-document.ts'

export type { Loose }

/** Decrypts what tests encrypt. */
export const TEST_CIPHER = createCipher('a secret that only tests know')

/** A client with a key. */
export interface ApiClient {
  accountId: string
  secret: string
  keyId: string
  call<Body = Loose>(method: string, path: string, request?: ApiRequest): Promise<ApiAnswer<Body>>
  /** The body of a GET. */
  get<Body = Loose>(path: string): Promise<Body>
  /** The status of an answer. */
  status(method: string, path: string, body?: unknown): Promise<number>
}

/** Options of a client: by default an Admin of a new account. */
interface NewClient {
  accountId?: string
  role?: Role
}

/** A running API. */
export interface PublicApi {
  url: string
  port: number
  app: App
  document: ApiDocument
  /** Throws when an answer differs from the document. */
  check: CheckAnswer
  /** Rejects when the app logged a fault of the platform. */
  close(): Promise<void>
}

/** The API for a file or a `describe`, on a database of its own, and an Admin client of a new account. */
export function usePublicApi(options: Partial<AppOptions> = {}, server?: DatabaseServer) {
  const database = useDatabase(server)
  const api = {} as PublicApi
  const client = {} as ApiClient
  beforeAll(async () => {
    Object.assign(api, await startPublicApi(database().database, options))
    Object.assign(client, await addClient(api, database().database))
  })
  afterAll(() => api.close())
  const addOther = (of?: NewClient) => addClient(api, database().database, of)
  return { database, api, client, addClient: addOther }
}

/** So many requests that no test reaches the limit. */
export const UNLIMITED = { limit: 1e8, windowS: 60 }

/** Starts the API on `database`; many may run on one. */
export async function startPublicApi(
  database: Database,
  options: Partial<AppOptions> = {},
): Promise<PublicApi> {
  const { log, lines: faults } = collectingLog('error')
  const app = createApp({
    database,
    cipher: TEST_CIPHER,
    clock: { now: () => Date.now() },
    log,
    ...options,
  })
  const server = await listening(createHttpServer(app.app.fetch as never))
  const url = `http://${server.authority}`
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as ApiDocument
  return {
    url,
    port: server.port,
    app,
    document,
    check: checkAgainst(document),
    async close() {
      await server.close()
      if (faults.length > 0) throw new Error(`the app had faults: ${faults.join('')}`)
    },
  }
}

/** The API for the tests of a file or of a `describe`, on a database that is there, without rate limits. */
export function servePublicApi(
  database: () => { database: Database },
  options: () => Partial<AppOptions> = () => ({}),
) {
  let api: PublicApi
  beforeAll(async () => {
    api = await startPublicApi(database().database, { defaultLimit: UNLIMITED, ...options() })
  })
  afterAll(() => api.close())
  return {
    api: () => api,
    addClient: (of?: NewClient) => addClient(api, database().database, of),
  }
}

/** Makes an account; returns its id. */
export async function addAccount(database: Database): Promise<string> {
  const id = randomUUID()
  await createAccount(database, { id, name: 'Acme' })
  return id
}

/** Makes a key for an account, and a client that uses it. */
export async function addClient(
  api: PublicApi,
  database: Database,
  { accountId, role = 'Admin' }: NewClient = {},
): Promise<ApiClient> {
  const account = accountId ?? (await addAccount(database))
  const secret = `test_${randomBytes(24).toString('base64url')}`
  const hash = createHash('sha256').update(secret).digest()
  const key = { accountId: account, name: `the ${role} key`, role, hash, suffix: secret.slice(-4) }
  const { id: keyId } = await ensureApiKey(database, key)
  const own = { authorization: `Bearer ${secret}`, 'x-service-account': account }
  return {
    accountId: account,
    secret,
    keyId,
    call: (method, path, request = {}) => callApi(api, own, method, path, request) as never,
    get: async (path) => (await callApi(api, own, 'GET', path, {})).body as never,
    status: async (method, path, body) => (await callApi(api, own, method, path, { body })).status,
  }
}
