// Aim: a code bundle is stored whole and once, downloaded only by agents that need it, and removed when unused.
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { pack } from 'tar-stream'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { bundlePath } from '../../../src/contract/api/code-bundle.ts'
import { DatabaseUnavailableError } from '../../../src/database/database-failure.ts'
import { createArtifactFolder } from '../../../src/platform/artifacts/folder.ts'
import { ArtifactStoreError, type ArtifactStore } from '../../../src/platform/artifacts/store.ts'
import { bundleOperations, bundleRetention } from '../../../src/platform/code-bundles/routes.ts'
import { startAgentsApi, type AgentsApi } from '../../support/platform/agents-api.ts'
import { filesBelow } from '../../support/platform/artifacts/artifact-apis.ts'
import { useDatabase } from '../../support/database/database.ts'
import { addLocation, type TestLocation } from '../../support/platform/locations.ts'
import * as publicApi from '../../support/platform/public-api.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const { addClient, startPublicApi } = publicApi
type ApiClient = publicApi.ApiClient
const folder = temporaryFolder()
const database = useDatabase()
const db = () => database().database
const NOW = new AbortController().signal

const hashOf = (body: Buffer) => createHash('sha256').update(body).digest('hex')

/** The tar.gz of one file with so many random bytes. */
async function packed(bytes: number): Promise<Buffer> {
  const tar = pack()
  tar.entry({ name: 'a.spec.ts' }, randomBytes(bytes))
  tar.finalize()
  return gzipSync(await buffer(tar))
}

let api: publicApi.PublicApi
let agents: AgentsApi
let client: ApiClient
const store = createArtifactFolder(folder)
const stored = () => filesBelow(folder)
const warned: unknown[] = []

beforeAll(async () => {
  const log = { warn: (fact: unknown) => void warned.push(fact) }
  const operations = bundleOperations({ database: db(), store, log })
  api = await startPublicApi(db(), { operations, defaultLimit: publicApi.UNLIMITED })
  agents = await startAgentsApi(database(), { artifacts: store })
  client = await addClient(api, db())
})
afterAll(() => Promise.all([api.close(), agents.close()]))

const put = (body: Buffer, { by = client, as = hashOf(body) } = {}) => {
  const headers = { 'content-type': 'application/gzip' }
  return by.call('PUT', `/v1/code-bundles/${as}`, { raw: body as Buffer<ArrayBuffer>, headers })
}
const headersOf = ({ secret, accountId }: ApiClient) => {
  return { authorization: `Bearer ${secret}`, 'x-service-account': accountId }
}
const get = (sha256: string, { method = 'GET', by = client } = {}) =>
  fetch(`${api.url}/v1/code-bundles/${sha256}`, { method, headers: headersOf(by) })
const bytesOf = async (answer: Response) => Buffer.from(await answer.arrayBuffer())
/** Downloads a bundle as an agent. */
const download = async (key: string, sha256: string) => {
  const headers = { authorization: `Bearer ${key}` }
  const answer = await fetch(`${agents.url}/agent/v1/bundles/${sha256}`, { headers })
  const { status, headers: answered } = answer
  return { status, type: answered.get('content-type'), body: await bytesOf(answer) }
}
const rowOf = async (body: Buffer) => {
  const sql = `select stored_as from code_bundles where sha256 = decode($1, 'hex')`
  return (await db().query<{ stored_as: string }>(sql, [hashOf(body)]))[0]
}
const age = (column: string, by: string, table = 'code_bundles') =>
  db().query(`update ${table} set ${column} = ${column} - interval '${by}'`)
/** Makes a check of that bundle; its id. */
const addSuite = async (sha256: string, location: TestLocation) => {
  const body = suite(bundlePath(sha256), location)
  const made = await client.call('POST', '/v1/checks/playwright', { body })
  expect([made.status, made.text]).toEqual([201, made.text])
  return made.body.id as string
}
const suite = (codeBundlePath: string, { slugName }: TestLocation) => {
  return { name: 'the shop', codeBundlePath, privateLocations: [slugName] }
}
const retention = (unusedMs: number, on: ArtifactStore = store) =>
  bundleRetention({ database: db(), store: on }, unusedMs)
const listed = async () => {
  const { body } = await client.call('GET', '/v1/code-bundles?limit=100')
  return body.entries as { sha256: string; bytes: number; checks: number }[]
}

test('a bundle is downloaded as it was uploaded; HEAD answers without it', async () => {
  const body = await packed(300_000)
  const sha256 = hashOf(body)
  expect((await get(sha256, { method: 'HEAD' })).status).toBe(404)
  const { status, body: answer } = await put(body)
  expect([status, answer]).toEqual([200, { sha256, bytes: body.length }])
  const response = await get(sha256)
  expect(body.equals(await bytesOf(response))).toBe(true)
  const head = await get(sha256, { method: 'HEAD' })
  expect([head.status, await head.text()]).toEqual([200, ''])
  const length = { 'content-type': 'application/gzip', 'content-length': String(body.length) }
  for (const { headers } of [response, head]) {
    expect(Object.fromEntries(headers)).toMatchObject({ ...length, etag: `"${sha256}"` })
  }
  const entry = { sha256, bytes: body.length, checks: 0 }
  expect(await listed()).toContainEqual(expect.objectContaining(entry))
})

test('the same bundle again, or many times concurrently, is stored once', async () => {
  const body = await packed(400_000)
  const before = stored().length
  const answers = await Promise.all(Array.from({ length: 5 }, () => put(body)))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200])
  expect(await put(body)).toMatchObject({ status: 200, body: { bytes: body.length } })
  expect(stored()).toHaveLength(before + 1)
  expect((await listed()).filter(({ sha256 }) => sha256 === hashOf(body))).toHaveLength(1)
})

test.each([
  ['other bytes than the address names', 'a'.repeat(64), 400],
  ['an address that is no hash', 'A'.repeat(64), 404],
])('%s are refused, and nothing is stored', async (_sentence, as, status) => {
  const before = stored().length
  expect((await put(Buffer.from('other'), { as })).status).toBe(status)
  expect(stored()).toHaveLength(before)
  expect(await db().query(`select from code_bundles where state <> 'stored'`)).toEqual([])
})

const letters = Buffer.alloc(2_000, 'a')
test.each([
  ['nothing', Buffer.alloc(0), /it is empty/],
  ['a text', letters, /is not gzip/],
  ['more junk than is looked at', randomBytes(300_000).fill(0, 0, 1), /is not gzip/],
  ['what begins as gzip and is none', Buffer.from([0x1f, 0x8b, 1, 2, 3]), /is not a tar/],
  ['a text packed by gzip', gzipSync(letters), /is not a tar/],
  ['nothing packed by gzip', gzipSync(''), /is not a tar/],
  ['a tar without anything', gzipSync(Buffer.alloc(1_024)), /archive is empty/],
])('%s is not a bundle: it is refused, and nothing is stored', async (_sentence, body, message) => {
  const before = stored().length
  const { status, body: answer } = await put(body)
  expect([status, answer.message]).toEqual([400, expect.stringMatching(message)])
  expect([stored().length, await rowOf(body)]).toEqual([before, undefined])
})

test('a bundle that is too large is refused by its length, before it is read', async () => {
  const length = { 'content-type': 'application/gzip', 'content-length': 150 * 1024 * 1024 + 1 }
  const headers = { ...headersOf(client), ...length }
  const url = `${api.url}/v1/code-bundles/${'b'.repeat(64)}`
  const outgoing = request(url, { method: 'PUT', agent: false, headers })
  outgoing.flushHeaders()
  const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage]
  outgoing.on('error', () => undefined).destroy()
  expect(incoming.statusCode).toBe(413)
})

test('a read-only key uploads and deletes none, another account sees none', async () => {
  const { accountId } = client
  const reader = await addClient(api, db(), { accountId, role: 'Read & Run' })
  const stranger = await addClient(api, db())
  const body = await packed(100)
  expect((await put(body, { by: reader })).status).toBe(403)
  await put(body)
  const one = `/v1/code-bundles/${hashOf(body)}`
  expect((await reader.call('DELETE', one)).status).toBe(403)
  expect((await get(hashOf(body), { by: reader })).status).toBe(200)
  expect((await get(hashOf(body), { by: stranger })).status).toBe(404)
  expect((await stranger.call('DELETE', one)).status).toBe(404)
  expect((await stranger.call('GET', '/v1/code-bundles')).body.entries).toEqual([])
})

describe('a suite', () => {
  const scene = async () => {
    const body = await packed(5_000)
    await put(body)
    const location = await addLocation(db(), client)
    return { body, sha256: hashOf(body), location, key: location.secret }
  }

  test.each([
    ['of a bundle that is not here', bundlePath('c'.repeat(64)), /bundle c{64}.*PUT \/v1/],
    ['of a hash that is none', 'bundle:abc', /codeBundlePath: .*64 hex digits/],
    ['of a path that is no bundle', 'k/1795', /codeBundlePath: must be bundle:/],
    ['of a variable', '{{SHA}}', /codeBundlePath: .*without variables/],
  ])('%s is refused', async (_sentence, path, message) => {
    const { location } = await scene()
    const environmentVariables = [{ key: 'SHA', value: 'x' }]
    const bad = { ...suite(path, location), environmentVariables }
    const { status, body } = await client.call('POST', '/v1/checks/playwright', { body: bad })
    expect([status, body.message]).toEqual([400, expect.stringMatching(message)])
    const monitors = [{ key: 'a', definition: { ...bad, checkType: 'PLAYWRIGHT' } }]
    const applied = await client.call('POST', '/v1/apply', { body: { name: 'a', monitors } })
    const problems = [{ key: 'a', path: ['codeBundlePath'] }]
    expect(applied.body).toMatchObject({ applied: false, problems })
  })

  test('lets only the agents of its location download its bundle', async () => {
    const { body, sha256, location, key } = await scene()
    const elsewhere = await addLocation(db(), client)
    const abroad = await addLocation(db(), await addClient(api, db()))
    expect((await download(key, sha256)).status).toBe(404)
    await addSuite(sha256, location)
    const answer = await download(key, sha256)
    expect([answer.type, answer.body.equals(body)]).toEqual(['application/gzip', true])
    const documented = agents.document.paths['/agent/v1/bundles/{sha256}']?.['get']?.responses
    expect(documented?.['200']?.content).toEqual({
      'application/gzip': expect.anything() as object,
    })
    for (const { secret } of [elsewhere, abroad]) {
      const refused = await download(secret, sha256)
      expect(refused.status).toBe(404)
      expect(refused.body.toString()).toContain('No such code bundle')
    }
    expect((await download('pl_unknown', sha256)).status).toBe(401)
    expect((await download(key, 'x')).status).toBe(404)
  })

  test('that changes its bundle leaves the previous one to agents for a while', async () => {
    const [first, second] = [await scene(), await scene()]
    const path = `/v1/checks/${await addSuite(first.sha256, first.location)}`
    const body = { codeBundlePath: bundlePath(second.sha256) }
    expect((await client.call('PATCH', path, { body })).status).toBe(200)
    const statuses = async () => [
      (await download(first.key, first.sha256)).status,
      (await download(first.key, second.sha256)).status,
    ]
    expect(await statuses()).toEqual([200, 200])
    await age('former_bundle_at', '3 h', 'monitors')
    expect(await statuses()).toEqual([404, 200])
    await client.call('DELETE', path)
    expect(await statuses()).toEqual([404, 404])
  })

  test('protects its bundle from deletion and retention, until it is deleted', async () => {
    const { sha256, location } = await scene()
    const id = await addSuite(sha256, location)
    const one = `/v1/code-bundles/${sha256}`
    expect(await listed()).toContainEqual(expect.objectContaining({ sha256, checks: 1 }))
    expect((await client.call('DELETE', one)).status).toBe(409)
    await age('used_at', '30 days')
    await retention(1_000_000).run(NOW)
    expect((await get(sha256, { method: 'HEAD' })).status).toBe(200)
    await client.call('DELETE', `/v1/checks/${id}`)
    const before = stored().length
    expect((await client.call('DELETE', one)).status).toBe(204)
    expect((await client.call('DELETE', one)).status).toBe(404)
    expect(stored()).toHaveLength(before - 1)
  })
})

describe('retention', () => {
  beforeEach(async () => {
    await db().query('truncate monitors cascade')
    await retention(0).run(NOW)
  })

  test('unused bundles and leftovers of uploads are removed in time', async () => {
    const fresh = await packed(1_000)
    for (const body of [await packed(1_000), fresh]) await put(body)
    expect(stored()).toHaveLength(2)
    await retention(0).run(NOW)
    expect([await listed(), stored()]).toEqual([[], []])
    const id = randomUUID()
    await db().query(
      `insert into code_bundles (id, account_id, sha256, state, stored_as, created_at)
       values ($1, $2, $3, 'arriving', $4, now() - interval '3 hours')`,
      [id, client.accountId, randomBytes(32), `bundles/${id}`],
    )
    await put(fresh)
    await retention(1_000_000).run(NOW)
    expect(await db().query('select state from code_bundles')).toEqual([{ state: 'stored' }])
    expect(stored()).toHaveLength(1)
  })

  test('a file that cannot be removed stops no others, and is removed later', async () => {
    for (let count = 0; count < 3; count++) await put(await packed(100))
    let calls = 0
    const remove = (key: string) =>
      ++calls === 2 ? Promise.reject(new ArtifactStoreError('no right')) : store.remove(key)
    await expect(retention(0, { ...store, remove }).run(NOW)).rejects.toThrow(/: 1$/)
    expect(await db().query('select state from code_bundles')).toEqual([{ state: 'leaving' }])
    expect(stored()).toHaveLength(1)
    await age('used_at', '3 hours')
    await retention(0).run(NOW)
    expect([await db().query('select from code_bundles'), stored()]).toEqual([[], []])
  })

  test('a time-out forgets the files that are removed', async () => {
    for (let count = 0; count < 2; count++) await put(await packed(100))
    const stop = new AbortController()
    const remove = async (key: string) => {
      await store.remove(key)
      stop.abort()
    }
    await expect(retention(0, { ...store, remove }).run(stop.signal)).rejects.toThrow(/abort/)
    expect(await db().query('select from code_bundles')).toHaveLength(1)
    await age('used_at', '3 hours')
    await retention(0).run(NOW)
  })
})

/** A bundle whose file was removed behind the platform's back. */
async function lost(): Promise<Buffer> {
  const body = await packed(2_000)
  await put(body)
  await store.remove((await rowOf(body))?.stored_as ?? '')
  return body
}

test('a bundle that the store has lost is uploaded again', async () => {
  const body = await lost()
  expect((await get(hashOf(body))).status).toBe(404)
  expect(warned).toHaveLength(1)
  await put(body)
  expect(body.equals(await bytesOf(await get(hashOf(body))))).toBe(true)
})

test('a lost bundle is answered with 404 also while the database cannot hide it', async () => {
  const body = await lost()
  const query = db().query.bind(db())
  const spy = vi.spyOn(db(), 'query').mockImplementation((statement, values) => {
    const isHide = typeof statement === 'object' && statement.name === 'bundle-leave'
    if (isHide) return Promise.reject(new DatabaseUnavailableError('away'))
    return query<never>(statement as never, values)
  })
  onTestFinished(() => spy.mockRestore())
  expect((await get(hashOf(body))).status).toBe(404)
  expect(spy).toHaveBeenCalledWith(expect.objectContaining({ name: 'bundle-leave' }))
})
