// Aim: failures of each kind of store, and slow senders, are answered with their reason and leave nothing.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { arrivingBytes, PACE } from '../../../src/platform/http/arriving-bytes.ts'
import { createArtifactBucket } from '../../../src/platform/artifacts/bucket.ts'
import { createArtifactFolder } from '../../../src/platform/artifacts/folder.ts'
import { ArtifactStoreError } from '../../../src/platform/artifacts/store.ts'
import { filesBelow, useArtifactApis } from '../../support/platform/artifacts/artifact-apis.ts'
import { zeros } from '../../support/platform/artifacts/artifact-uploads.ts'
import { useDatabase } from '../../support/database/database.ts'
import { startS3Server, type S3Server } from '../../support/platform/artifacts/s3-server.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const MIB = 1024 * 1024
const root = temporaryFolder()
const database = useDatabase()

let s3: S3Server
beforeAll(async () => {
  s3 = await startS3Server(temporaryFolder())
})
afterAll(() => s3.close())

describe('in a folder', () => {
  const full = useArtifactApis(database, () =>
    createArtifactFolder(join(root, 'full'), async (file, bytes) => {
      await file.write(bytes.subarray(0, 1000))
      throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
    }),
  )

  test('a full disk is answered with 503 and leaves nothing', async () => {
    const one = await full.scene()
    expect((await full.put(one, { body: randomBytes(100_000) })).status).toBe(503)
    expect([filesBelow(join(root, 'full')), await full.listed(one)]).toEqual([[], []])
  })

  test('days before the first retained one are removed as a whole', async () => {
    const folder = join(root, 'days')
    const store = createArtifactFolder(folder)
    const facts = { bytes: 1, sha256: Buffer.alloc(32), contentType: 'a/b' }
    const body = () => Readable.from([Buffer.from('x')])
    await store.put('2026-01-01/a', body(), facts)
    await store.put('2026-01-02/b', body(), facts)
    await store.dropBefore('2026-01-02')
    expect(filesBelow(folder)).toEqual(['b'])
  })

  const plain = useArtifactApis(database, () => createArtifactFolder(join(root, 'chunked')))

  test('a chunked body past the limit is refused while it arrives, and recorded', async () => {
    const one = await plain.scene()
    const { body, digest } = zeros(75 * MIB + 1)
    const headers = { 'content-digest': digest, 'user-agent': 'Vedette/6.3.1' }
    expect((await plain.put(one, { body, headers })).status).toBe(413)
    expect(filesBelow(join(root, 'chunked'))).toEqual([])
    expect(await plain.listed(one)).toMatchObject([{ state: 'refused', refusal: 'TOO_LARGE' }])
  })
})

describe('in a bucket', () => {
  const { scene, put, download, listed } = useArtifactApis(database, () => createArtifactBucket(s3))

  test('a chunked body is refused, because its length is needed', async () => {
    const { body, digest } = zeros(10)
    const answer = await put(await scene(), { body, headers: { 'content-digest': digest } })
    expect(answer.status).toBe(400)
  })

  test('its failures give 503 and leave nothing', async () => {
    const one = await scene()
    const before = s3.keys().length
    s3.failWith(500)
    const { status } = await put(one, { body: randomBytes(3_000_000) })
    s3.failWith(undefined)
    expect([status, await listed(one)]).toEqual([503, []])
    expect(s3.keys()).toHaveLength(before)
    expect((await put(one, { body: randomBytes(10) })).status).toBe(200)
  })

  test('a download that it fails is answered with 503 and leaves the connection open', async () => {
    const one = await scene()
    await put(one, { body: randomBytes(10) })
    s3.failWith(500)
    const { status, headers } = await download(one)
    s3.failWith(undefined)
    expect([status, headers.get('retry-after')]).toEqual([503, '10'])
    expect(headers.get('connection')).not.toBe('close')
  })

  test('a wrong key is reported as such', async () => {
    const store = createArtifactBucket({ ...s3, secretAccessKey: 'wrong' })
    const failed = store.get('2026-01-01/a')
    await expect(failed).rejects.toThrow(ArtifactStoreError)
    await expect(failed).rejects.toThrow('403 SignatureDoesNotMatch')
  })

  test('an unreachable service is reported as such', async () => {
    const away = await startS3Server(temporaryFolder())
    await away.close()
    const store = createArtifactBucket(away)
    await expect(store.remove('2026-01-01/a')).rejects.toThrow(ArtifactStoreError)
  })
})

test('a slow sender times out', async () => {
  // The clock of the wait is the process's own: the pace is tried with the fake one.
  vi.useFakeTimers()
  try {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(Buffer.from('x')),
    })
    const bytes = arrivingBytes(body, { bytesMax: 10, sha256: Buffer.alloc(32) }).next()
    const failure = bytes.catch((error: unknown) => error)
    await vi.advanceTimersByTimeAsync(PACE.ms + 1)
    expect(await failure).toMatchObject({ status: 408 })
  } finally {
    vi.useRealTimers()
  }
})
