// Aim: a code bundle is stored whole under its hash or not at all, and once however often it is uploaded. Only
// agents of locations that name it can download it, and it is removed when unused, in a folder and in a bucket.
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { request } from 'node:http'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { pack } from 'tar-stream'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { bundlePath } from '../../../src/contract/api/code-bundle.ts'
import { DatabaseUnavailableError } from '../../../src/database/database-failure.ts'
import { createArtifactBucket } from '../../../src/platform/artifacts/bucket.ts'
import { createArtifactFolder } from '../../../src/platform/artifacts/folder.ts'
import { ArtifactStoreError, type ArtifactStore } from '../../../src/platform/artifacts/store.ts'
import { bundleOperations, bundleRetention } from '../../../src/platform/code-bundles/routes.ts'
import { startAgentsApi, type AgentsApi } from '../../support/platform/agents-api.ts'
import { filesBelow } from '../../support/platform/artifacts/artifact-apis.ts'
import { useDatabase } from '../../support/database/database.ts'
import { addLocation, type TestLocation } from '../../support/platform/locations.ts'
import {
  addClient,
  startPublicApi,
  type ApiClient,
  type Loose,
  type PublicApi,
} from '../../support/platform/public-api.ts'
import { startS3Server } from '../../support/platform/artifacts/s3-server.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const MIB = 1024 * 1024
const root = temporaryFolder()
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

let api: PublicApi
let agents: AgentsApi
let client: ApiClient
const store = createArtifactFolder(join(root, 'artifacts'))
const stored = () => filesBelow(join(root, 'artifacts'))
const warned: unknown[] = []

/** Starts the public API on a store. */
const startApi = (on: ArtifactStore) => {
  const log = { warn: (fact: unknown) => void warned.push(fact) }
  const operations = bundleOperations({ database: db(), store: on, log })
  return startPublicApi(db(), { operations, defaultLimit: { limit: 1e6, windowS: 60 } })
}

beforeAll(async () => {
  api = await startApi(store)
  agents = await startAgentsApi(database(), { artifacts: store })
  client = await addClient(api, db())
})
afterAll(() => Promise.all([api.close(), agents.close()]))

const put = (body: Buffer, more: { by?: ApiClient; as?: string } = {}) =>
  (more.by ?? client).call('PUT', `/v1/code-bundles/${more.as ?? hashOf(body)}`, {
    raw: body as Buffer<ArrayBuffer>,
    headers: { 'content-type': 'application/gzip' },
  })
const get = (sha256: string, { method = 'GET', by = client } = {}) =>
  fetch(`${api.url}/v1/code-bundles/${sha256}`, {
    method,
    headers: { authorization: `Bearer ${by.secret}`, 'x-service-account': by.accountId },
  })
const fetchAs = (key: string, sha256: string) =>
  fetch(`${agents.url}/agent/v1/bundles/${sha256}`, {
    headers: { authorization: `Bearer ${key}` },
  })
const suite = (codeBundlePath: string, location: TestLocation, more: object = {}) => ({
  name: 'the shop',
  codeBundlePath,
  privateLocations: [location.slugName],
  ...more,
})
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
  expect(Buffer.from(await response.arrayBuffer()).equals(body)).toBe(true)
  const head = await get(sha256, { method: 'HEAD' })
  expect([head.status, await head.text()]).toEqual([200, ''])
  for (const { headers } of [response, head]) {
    expect(Object.fromEntries(headers)).toMatchObject({
      'content-type': 'application/gzip',
      'content-length': String(body.length),
      etag: `"${sha256}"`,
    })
  }
  expect(await listed()).toContainEqual(
    expect.objectContaining({ sha256, bytes: body.length, checks: 0 }),
  )
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
  ['other bytes than the address names', Buffer.from('other'), 'a'.repeat(64), 400],
  ['an address that is no hash', Buffer.from('x'), 'A'.repeat(64), 404],
])('%s are refused, and nothing is stored', async (_sentence, body, as, status) => {
  const before = stored().length
  expect((await put(body, { as })).status).toBe(status)
  expect(stored()).toHaveLength(before)
  const rows = await db().query(`select from code_bundles where state <> 'stored'`)
  expect(rows).toEqual([])
})

const letters = Buffer.alloc(2_000, 'a')
test.each([
  ['nothing', Buffer.alloc(0), /it is empty/],
  ['a text', letters, /is not gzip/],
  ['more junk than is looked at', randomBytes(300_000).fill(0, 0, 1), /is not gzip/],
  ['what begins as gzip and is none', Buffer.from([0x1f, 0x8b, 1, 2, 3]), /is not a tar/],
  ['a text packed by gzip', gzipSync(letters), /is not a tar/],
  ['less than a header packed by gzip', gzipSync('a'), /is not a tar/],
  ['nothing packed by gzip', gzipSync(''), /is not a tar/],
  ['a tar without anything', gzipSync(Buffer.alloc(1_024)), /archive is empty/],
])('%s is not a bundle: it is refused, and nothing is stored', async (_sentence, body, message) => {
  const before = stored().length
  const { status, body: answer } = await put(body)
  expect([status, answer.message]).toEqual([400, expect.stringMatching(message)])
  expect(stored()).toHaveLength(before)
  const sha256 = Buffer.from(hashOf(body), 'hex')
  expect(await db().query('select from code_bundles where sha256 = $1', [sha256])).toEqual([])
})

test('a bundle that is too large is refused by its length, before it is read', async () => {
  const outgoing = request(`${api.url}/v1/code-bundles/${'b'.repeat(64)}`, {
    method: 'PUT',
    agent: false,
    headers: {
      authorization: `Bearer ${client.secret}`,
      'x-service-account': client.accountId,
      'content-type': 'application/gzip',
      'content-length': String(150 * MIB + 1),
    },
  })
  const status = await new Promise((resolve, reject) => {
    outgoing.once('response', (incoming) => resolve(incoming.resume().statusCode))
    outgoing.once('error', reject)
    outgoing.flushHeaders()
  })
  outgoing.on('error', () => undefined).destroy()
  expect(status).toBe(413)
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
    ['of a bundle that is not here', bundlePath('c'.repeat(64)), /no code bundle c{64}.*PUT \/v1/],
    ['of a hash that is none', 'bundle:abc', /codeBundlePath: .*64 hex digits/],
    ['of a hash in a variable', 'bundle:{{SHA}}', /codeBundlePath: .*without variables/],
    ['of a path that is no bundle', 'k/1795', /codeBundlePath: must be bundle:/],
    ['of a variable', '{{SHA}}', /codeBundlePath: .*without variables/],
  ])('%s is refused', async (_sentence, path, message) => {
    const { location } = await scene()
    const bad = suite(path, location, { environmentVariables: [{ key: 'SHA', value: 'x' }] })
    const { status, body } = await client.call('POST', '/v1/checks/playwright', { body: bad })
    expect([status, body.message]).toEqual([400, expect.stringMatching(message)])
    const monitors = [{ key: 'a', definition: { ...bad, checkType: 'PLAYWRIGHT' } }]
    const applied = await client.call('POST', '/v1/apply', { body: { name: 'a', monitors } })
    expect(applied.body).toMatchObject({
      applied: false,
      problems: [{ key: 'a', path: ['codeBundlePath'] }],
    })
  })

  test('lets only the agents of its location download its bundle', async () => {
    const { body, sha256, location, key } = await scene()
    const elsewhere = await addLocation(db(), client)
    const abroad = await addLocation(db(), await addClient(api, db()))
    const [other, stranger] = [elsewhere.secret, abroad.secret]
    expect((await fetchAs(key, sha256)).status).toBe(404)
    const made = await client.call('POST', '/v1/checks/playwright', {
      body: suite(bundlePath(sha256), location),
    })
    expect(made.status).toBe(201)
    const response = await fetchAs(key, sha256)
    expect(response.headers.get('content-type')).toBe('application/gzip')
    const documented = agents.document.paths['/agent/v1/bundles/{sha256}']?.['get'] as Loose
    expect(Object.keys(documented.responses['200'].content)).toEqual(['application/gzip'])
    expect(Buffer.from(await response.arrayBuffer()).equals(body)).toBe(true)
    for (const secret of [other, stranger]) {
      const refused = await fetchAs(secret, sha256)
      expect([refused.status, ((await refused.json()) as { message: string }).message]).toEqual([
        404,
        'No such code bundle',
      ])
    }
    expect((await fetchAs('pl_unknown', sha256)).status).toBe(401)
    expect((await fetchAs(key, 'x')).status).toBe(404)
  })

  test('that changes its bundle leaves the previous one to agents for a while', async () => {
    const [first, second] = [await scene(), await scene()]
    const { location, key } = first
    const { body } = await client.call('POST', '/v1/checks/playwright', {
      body: suite(bundlePath(first.sha256), location),
    })
    const codeBundlePath = bundlePath(second.sha256)
    const changed = await client.call('PATCH', `/v1/checks/${body.id}`, {
      body: { codeBundlePath },
    })
    expect(changed.status).toBe(200)
    const statuses = async () =>
      Promise.all(
        [first, second].map(async ({ sha256 }) => {
          const response = await fetchAs(key, sha256)
          await response.arrayBuffer()
          return response.status
        }),
      )
    expect(await statuses()).toEqual([200, 200])
    await db().query(
      `update monitors set former_bundle_at = former_bundle_at - interval '3 h' where id = $1`,
      [body.id],
    )
    expect(await statuses()).toEqual([404, 200])
    await client.call('DELETE', `/v1/checks/${body.id}`)
    expect(await statuses()).toEqual([404, 404])
  })

  test('protects its bundle from deletion and retention, until it is deleted', async () => {
    const { sha256, location } = await scene()
    const { body } = await client.call('POST', '/v1/checks/playwright', {
      body: suite(bundlePath(sha256), location),
    })
    const one = `/v1/code-bundles/${sha256}`
    expect(await listed()).toContainEqual(expect.objectContaining({ sha256, checks: 1 }))
    expect((await client.call('DELETE', one)).status).toBe(409)
    await db().query(`update code_bundles set used_at = used_at - interval '30 days'`)
    await retention(1_000_000).run(NOW)
    expect((await get(sha256, { method: 'HEAD' })).status).toBe(200)
    await client.call('DELETE', `/v1/checks/${body.id}`)
    const before = stored().length
    expect((await client.call('DELETE', one)).status).toBe(204)
    expect((await client.call('DELETE', one)).status).toBe(404)
    expect(stored()).toHaveLength(before - 1)
  })
})

describe.each(['a folder', 'a bucket'])('retention in %s', (name) => {
  const folder = join(root, 'retention')
  let one: { store: ArtifactStore; keys: () => string[] }
  let by: ApiClient
  const closing: (() => unknown)[] = []
  beforeAll(async () => {
    if (name === 'a folder') {
      one = { store: createArtifactFolder(folder), keys: () => filesBelow(folder) }
    } else {
      const s3 = await startS3Server(temporaryFolder())
      closing.push(s3.close)
      one = { store: createArtifactBucket(s3), keys: s3.keys }
    }
    const its = await startApi(one.store)
    closing.unshift(() => its.close())
    by = await addClient(its, db(), { accountId: client.accountId })
  })
  afterAll(async () => {
    for (const close of closing) await close()
  })

  test('unused bundles and leftovers of uploads are removed in time', async () => {
    const [old, fresh] = [await packed(1_000), await packed(1_000)]
    await put(old, { by })
    await put(fresh, { by })
    expect(one.keys()).toHaveLength(2)
    await retention(0, one.store).run(NOW)
    expect(await listed()).toEqual([])
    expect(one.keys()).toEqual([])
    const id = randomUUID()
    await db().query(
      `insert into code_bundles (id, account_id, sha256, state, stored_as, created_at)
       values ($1, $2, $3, 'arriving', $4, now() - interval '3 hours')`,
      [id, client.accountId, randomBytes(32), `bundles/${id}`],
    )
    await put(fresh, { by })
    await retention(1_000_000, one.store).run(NOW)
    expect(await db().query('select state from code_bundles')).toEqual([{ state: 'stored' }])
    expect(one.keys()).toHaveLength(1)
    await retention(0, one.store).run(NOW)
  })

  test('a file that cannot be removed stops no others, and is removed later', async () => {
    for (let count = 0; count < 3; count++) await put(await packed(100), { by })
    let calls = 0
    const remove = (key: string) =>
      ++calls === 2 ? Promise.reject(new ArtifactStoreError('no right')) : one.store.remove(key)
    await expect(retention(0, { ...one.store, remove }).run(NOW)).rejects.toThrow(/: 1$/)
    expect(await db().query('select state from code_bundles')).toEqual([{ state: 'leaving' }])
    expect(one.keys()).toHaveLength(1)
    await db().query(`update code_bundles set used_at = used_at - interval '3 hours'`)
    await retention(0, one.store).run(NOW)
    expect([await db().query('select from code_bundles'), one.keys()]).toEqual([[], []])
  })

  test('a time-out forgets the files that are removed', async () => {
    await put(await packed(100), { by })
    await put(await packed(100), { by })
    const stop = new AbortController()
    const remove = async (key: string) => {
      await one.store.remove(key)
      stop.abort()
    }
    await expect(retention(0, { ...one.store, remove }).run(stop.signal)).rejects.toThrow(/abort/)
    expect(await db().query('select from code_bundles')).toHaveLength(1)
    await db().query(`update code_bundles set used_at = used_at - interval '3 hours'`)
    await retention(0, one.store).run(NOW)
  })
})

/** Removes the file of a bundle behind the platform's back. */
async function lose(body: Buffer): Promise<void> {
  const rows = await db().query<{ stored_as: string }>(
    `select stored_as from code_bundles where sha256 = decode($1, 'hex')`,
    [hashOf(body)],
  )
  await store.remove(rows[0]?.stored_as ?? '')
}

test('a bundle that the store has lost is uploaded again', async () => {
  const body = await packed(2_000)
  await put(body)
  await lose(body)
  expect((await get(hashOf(body))).status).toBe(404)
  expect(warned).toHaveLength(1)
  await put(body)
  const response = await get(hashOf(body))
  expect(Buffer.from(await response.arrayBuffer()).equals(body)).toBe(true)
})

test('a lost bundle is answered with 404 also while the database cannot hide it', async () => {
  const body = await packed(2_000)
  await put(body)
  await lose(body)
  const query = db().query.bind(db())
  const spy = vi.spyOn(db(), 'query').mockImplementation((statement, values) => {
    const isHide = typeof statement === 'object' && statement.name === 'bundle-leave'
    if (isHide) return Promise.reject(new DatabaseUnavailableError('away'))
    return query<never>(statement as never, values)
  })
  try {
    expect((await get(hashOf(body))).status).toBe(404)
    expect(spy).toHaveBeenCalledWith(expect.objectContaining({ name: 'bundle-leave' }))
  } finally {
    spy.mockRestore()
  }
})
