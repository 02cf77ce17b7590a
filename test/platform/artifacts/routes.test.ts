// Aim: an artifact is stored whole or not at all, whatever its sender does, and is readable only by its account,
// in a folder and in a bucket.
import { hash, randomBytes, randomUUID } from 'node:crypto'
import { readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createArtifactBucket } from '../../../src/platform/artifacts/bucket.ts'
import { createArtifactFolder } from '../../../src/platform/artifacts/folder.ts'
import type { ArtifactStore } from '../../../src/platform/artifacts/store.ts'
import { artifactRetention } from '../../../src/platform/artifacts/routes.ts'
import { filesBelow, useArtifactApis } from '../../support/platform/artifacts/artifact-apis.ts'
import { digestOf } from '../../support/platform/artifacts/artifact-uploads.ts'
import { useDatabase } from '../../support/database/database.ts'
import { addRun } from '../../support/platform/monitor-rows.ts'
import { startS3Server, type S3Server } from '../../support/platform/artifacts/s3-server.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const DAY_MS = 86_400_000
const MIB = 1024 * 1024
const root = temporaryFolder()
const database = useDatabase()
const db = () => database().database

let s3: S3Server
beforeAll(async () => {
  s3 = await startS3Server(temporaryFolder())
})
afterAll(() => s3.close())

const folder = join(root, 'artifacts')
const STORES: [name: string, make: () => ArtifactStore, storedKeys: () => string[]][] = [
  ['a folder', () => createArtifactFolder(folder), () => filesBelow(folder)],
  ['a bucket', () => createArtifactBucket(s3), () => s3.keys()],
]
const bytesOf = async (response: Response) => Buffer.from(await response.arrayBuffer())

describe.each(STORES)('in %s', (_name, make, storedKeys) => {
  const { scene, put, begin, listed, download, store } = useArtifactApis(database, make)
  type Scene = Awaited<ReturnType<typeof scene>>

  const rows = (one: Scene) =>
    db().query('select from artifacts where location_id = $1', [one.location.id])
  /** Asserts that nothing of the scene's files is left: no row, and no additional file. */
  const expectNothing = async (one: Scene, before: number) => {
    expect([await listed(one), await rows(one)]).toEqual([[], []])
    expect(storedKeys()).toHaveLength(before)
  }

  test('a file is downloaded as it was uploaded', async () => {
    const one = await scene()
    const body = randomBytes(300_000)
    const name = 'Überblick 100% "a".zip'
    const { status, body: answer } = await put(one, { body, name })
    const sha256 = hash('sha256', body)
    expect([status, answer]).toEqual([200, { bytes: body.length, sha256 }])
    const stored = { name, state: 'stored', bytes: body.length, sha256 }
    expect(await listed(one)).toMatchObject([stored])
    const response = await download(one)
    expect((await bytesOf(response)).equals(body)).toBe(true)
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'application/zip',
      'content-length': '300000',
      'content-disposition': `attachment; filename="_berblick 100_ _a_.zip"; filename*=UTF-8''%C3%9Cberblick%20100%25%20%22a%22.zip`,
      'x-content-type-options': 'nosniff',
      'ratelimit-limit': '100000000',
      etag: `"${sha256}"`,
    })
  })

  test.each([
    ['bytes=10-19', 206, 10, 20],
    ['bytes=290-', 206, 290, 300],
    ['bytes=-5', 206, 295, 300],
    ['bytes=290-999', 206, 290, 300],
    ['bytes=300-', 200, 0, 300],
    ['bytes=0-1,5-6', 200, 0, 300],
  ])('Range %s gives %i', async (range, status, from, to) => {
    const one = await scene()
    const body = randomBytes(300)
    await put(one, { body })
    const response = await download(one, { headers: { range } })
    expect(response.status).toBe(status)
    expect((await bytesOf(response)).equals(body.subarray(from, to))).toBe(true)
    const headers = { 'if-none-match': response.headers.get('etag') ?? '' }
    const known = await download(one, { headers })
    expect([known.status, await known.text()]).toEqual([304, ''])
  })

  test('an empty file is stored', async () => {
    const one = await scene()
    expect((await put(one, { body: Buffer.alloc(0) })).status).toBe(200)
    const response = await download(one)
    expect([response.status, await response.text()]).toEqual([200, ''])
  })

  test('the same file again gets the same answer, another one is refused', async () => {
    const one = await scene()
    const body = randomBytes(200_000)
    const first = await put(one, { body })
    expect(await put(one, { body })).toEqual(first)
    expect((await put(one, { body: randomBytes(10) })).status).toBe(409)
    expect(await listed(one)).toHaveLength(1)
  })

  test('of many concurrent uploads under one name, one is stored', async () => {
    const one = await scene()
    const before = storedKeys().length
    const [body, other] = [randomBytes(400_000), randomBytes(400_000)]
    const bodies = [body, other, body, other, body, other]
    const answers = await Promise.all(bodies.map((each) => put(one, { body: each })))
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([
      200, 200, 200, 409, 409, 409,
    ])
    const winner = bodies[answers.findIndex(({ status }) => status === 200)]
    expect((await bytesOf(await download(one))).equals(winner ?? Buffer.alloc(0))).toBe(true)
    expect(storedKeys()).toHaveLength(before + 1)
  })

  test('a body that differs from its digest leaves nothing', async () => {
    const one = await scene()
    const before = storedKeys().length
    const headers = { 'content-digest': digestOf(Buffer.from('another')) }
    expect((await put(one, { body: randomBytes(500_000), headers })).status).toBe(400)
    await expectNothing(one, before)
  })

  test('a truncated body leaves nothing', async () => {
    const one = await scene()
    const before = storedKeys().length
    const { outgoing, answer } = begin(one, {
      'content-length': '1000000',
      'content-digest': digestOf(randomBytes(10)),
    })
    outgoing.write(randomBytes(500_000))
    await expect.poll(() => rows(one)).toHaveLength(1)
    outgoing.destroy()
    await expect(answer).rejects.toMatchObject({ code: 'ECONNRESET' })
    await expect.poll(() => rows(one)).toHaveLength(0)
    await expectNothing(one, before)
  })

  describe('retention', () => {
    const signal = new AbortController().signal
    const sweep = () =>
      artifactRetention({ database: db(), store: store(), retentionMs: 7 * DAY_MS }).run(signal)
    const age = (one: Scene, interval: string) =>
      db().query(
        `update artifacts set created_at = created_at - $2::interval where location_id = $1`,
        [one.location.id, interval],
      )

    test('removes expired rows and bytes, and no others', async () => {
      const [old, young] = [await scene(), await scene()]
      const before = storedKeys().length
      await put(old, { body: Buffer.from('old') })
      await put(young, { body: Buffer.from('young') })
      await age(old, '7 days 1 minute')
      await age(young, '6 days')
      await sweep()
      await expectNothing(old, before + 1)
      expect(await (await download(young)).text()).toBe('young')
    })

    test('removes leftovers of an upload whose process died', async () => {
      const one = await scene()
      await put(one, { body: Buffer.from('x') })
      await db().query(
        `update artifacts set state = 'arriving', bytes = null, sha256 = null
         where location_id = $1`,
        [one.location.id],
      )
      const before = storedKeys().length
      await sweep()
      expect(storedKeys()).toHaveLength(before)
      await age(one, '3 hours')
      await sweep()
      await expectNothing(one, before - 1)
    })
  })
})

describe('an upload', () => {
  const { scene, put, begin, listed, get, download } = useArtifactApis(database, STORES[0]![1])

  /** Announces a file of that size, sends none of it, and gives the status of the answer. */
  const announce = async (
    one: Parameters<typeof begin>[0],
    bytes: number,
    agent = 'Vedette/8.4.0',
  ) => {
    const length = { 'content-length': String(bytes), 'content-digest': digestOf(Buffer.from('x')) }
    const { outgoing, answer } = begin(one, { 'user-agent': agent, ...length })
    outgoing.flushHeaders()
    const { status } = await answer
    outgoing.destroy()
    return status
  }

  test('a file that is too large is refused by its length, before it is read', async () => {
    const one = await scene()
    expect(await announce(one, 150 * MIB + 1)).toBe(413)
    const refused = { state: 'refused', refusal: 'TOO_LARGE', id: null }
    expect(await listed(one)).toMatchObject([refused])
    // The record of the refusal allows a smaller one.
    expect((await put(one, { body: Buffer.from('smaller') })).status).toBe(200)
    expect(await listed(one)).toMatchObject([{ state: 'stored', bytes: 7 }])
  })

  test.each(['Vedette/6.3.1', 'curl/8'])('%s may upload half as much', async (agent) => {
    expect(await announce(await scene(), 75 * MIB + 1, agent)).toBe(413)
  })

  test.each([
    ['missing', null],
    ['of another kind', 'sha-512=:AAAA:'],
    ['no base64', 'sha-256=:zzzz:'],
  ])('a digest that is %s is refused', async (_what, digest) => {
    const request = { body: randomBytes(10), headers: { 'content-digest': digest } }
    expect((await put(await scene(), request)).status).toBe(400)
  })

  test.each(['..', '.', '../../etc/passwd', 'a/b', 'a\\b', 'a\0b', 'a\nb', 'ü'.repeat(128)])(
    'the name %j is none',
    async (name) => {
      const one = await scene()
      const { status } = await put(one, { body: Buffer.from('x'), name })
      expect([400, 404]).toContain(status)
      expect(await listed(one)).toEqual([])
    },
  )

  test('only results of the location accept files', async () => {
    const [one, other] = [await scene(), await scene()]
    const body = Buffer.from('x')
    const owners = [
      other.owner,
      `${one.monitorId}.1760000000001`,
      `${randomUUID()}.1760000000000`,
      randomUUID(),
      `${one.monitorId}.-10000`,
      // The scene's slot in another spelling, which would not be found, and one of 2100.
      `${one.monitorId}.01760000000000`,
      `${one.monitorId}.4102444800000`,
      one.monitorId,
    ]
    for (const owner of owners) expect((await put(one, { body, owner })).status).toBe(404)
    expect((await put(one, { body, secret: other.secret })).status).toBe(404)
    expect((await put(one, { body, secret: 'pl_none' })).status).toBe(401)
  })

  test('a run on demand accepts files', async () => {
    const one = await scene()
    const owner = await addRun(db(), one.location, { monitorId: one.monitorId })
    expect((await put(one, { body: Buffer.from('x'), owner })).status).toBe(200)
  })

  test('is readable only by its account', async () => {
    const [one, other] = [await scene(), await scene()]
    await put(one, { body: Buffer.from('x') })
    const id = (await listed(one))[0]?.id ?? ''
    expect((await get(other, id)).status).toBe(404)
    expect((await get(one, randomUUID())).status).toBe(404)
  })

  test('a result accepts no more files than allowed', async () => {
    const one = await scene()
    await db().query(
      `insert into artifacts (id, account_id, location_id, owner_key, name, state, content_type,
         stored_as, bytes, sha256)
       select gen_random_uuid(), $1, $2, $3, 'f' || n, 'stored', 'a/b', 'none', 0, sha256('')
       from generate_series(1, 101) n`,
      [one.client.accountId, one.location.id, one.owner],
    )
    expect((await put(one, { body: Buffer.from('x') })).status).toBe(409)
  })

  test.each(['HEAD', 'GET'])('%s that reads no body leaves no file open', async (method) => {
    const one = await scene()
    const body = randomBytes(8 * MIB)
    await put(one, { body })
    await (await download(one)).arrayBuffer()
    for (let times = 0; times < 10; times++) {
      const stop = new AbortController()
      const { status, headers } = await download(one, { method, signal: stop.signal })
      expect([status, headers.get('content-length')]).toEqual([200, String(body.length)])
      stop.abort()
    }
    // Or a client could exhaust the file descriptors of the process.
    await expect.poll(filesOpen).toEqual([])
  })
})

function filesOpen(): string[] {
  return readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(root)
    } catch {
      return false
    }
  })
}
