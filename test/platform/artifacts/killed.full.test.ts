// Aim: a platform that is killed during an upload serves nothing of it, the agent uploads it again, and leftovers
// are removed; a file of 150 MiB passes through bounded memory.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { randomBytes } from 'node:crypto'
import { afterAll, expect, test } from 'vitest'
import { createArtifactFolder } from '../../../src/platform/artifacts/folder.ts'
import { artifactRetention } from '../../../src/platform/artifacts/routes.ts'
import { addAccount } from '../../support/platform/public-api.ts'
import { artifactsOf } from '../../../src/platform/artifacts/queries.ts'
import { memoryMiBOf } from '../../bench/process-figures.ts'
import {
  beginUpload,
  bring,
  digestOf,
  zeros,
} from '../../support/platform/artifacts/artifact-uploads.ts'
import { useDatabase } from '../../support/database/database.ts'
import { addOwner, filesBelow } from '../../support/platform/artifacts/artifact-apis.ts'
import { startS3Server } from '../../support/platform/artifacts/s3-server.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const database = useDatabase()
const db = () => database().database
const MIB = 1024 * 1024
/** V8 lets 64 MiB of unreferenced buffers accumulate before it collects them; a file has 150. */
const GROWTH_MIB_MAX = 90
const children: ChildProcess[] = []
afterAll(() => {
  for (const child of children) child.kill('SIGKILL')
})

const start = async (env: Record<string, string>) => {
  const script = fileURLToPath(
    new URL('../../support/platform/artifacts/artifact-process.ts', import.meta.url),
  )
  const child = spawn(process.execPath, [script], {
    env: { DATABASE_URL: database().url, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  children.push(child)
  const ended = once(child, 'exit').then(() => Promise.reject(new Error('it ended at its start')))
  ended.catch(() => undefined)
  const [line] = (await Promise.race([once(child.stdout, 'data'), ended])) as [Buffer]
  return { child, pid: child.pid ?? 0, port: Number(/port (\d+)/.exec(line.toString())?.[1]) }
}

const scene = async () => ({
  ...(await addOwner(db(), await addAccount(db()))),
  name: 'a.zip',
})

test('a partial upload of a killed platform is not stored, and is uploaded again', async () => {
  const folder = temporaryFolder()
  const one = await scene()
  const body = randomBytes(4 * MIB)
  const first = await start({ FOLDER: folder })
  const { outgoing, answer } = beginUpload({
    ...one,
    port: first.port,
    headers: { 'content-length': String(body.length), 'content-digest': digestOf(body) },
  })
  outgoing.write(body.subarray(0, 3 * MIB))
  const files = () => filesBelow(folder)
  await expect.poll(files).toHaveLength(1)
  first.child.kill('SIGKILL')
  const code = expect.stringMatching(/^(ECONNRESET|EPIPE)$/)
  await expect(answer).rejects.toMatchObject({ code })
  expect(files()).toEqual([expect.stringMatching(/\.part$/)])
  expect(await artifactsOf(db(), one.location.id, one.owner)).toEqual([])

  const second = await start({ FOLDER: folder })
  expect((await bring({ ...one, port: second.port, body })).status).toBe(200)
  expect(files()).toHaveLength(2)
  await db().query(
    `update artifacts set created_at = created_at - interval '3 hours' where state = 'arriving'`,
  )
  const store = createArtifactFolder(folder)
  const backgroundJob = artifactRetention({ database: db(), store, retentionMs: 86_400_000 })
  await backgroundJob.run(new AbortController().signal)
  expect(files()).toEqual([expect.not.stringMatching(/\.part$/)])
  expect(await artifactsOf(db(), one.location.id, one.owner)).toHaveLength(1)
})

test.each(['a folder', 'a bucket'])(
  'the largest file passes through bounded memory into %s',
  async (where) => {
    const s3 = await startS3Server(temporaryFolder())
    const { keys: _, failWith: __, close, ...bucket } = s3
    const env =
      where === 'a folder' ? { FOLDER: temporaryFolder() } : { S3: JSON.stringify(bucket) }
    const { port, pid } = await start(env)
    const one = await scene()
    // The first file loads what every file needs.
    const warm = await bring({ ...one, name: 'warm', port, body: randomBytes(MIB) })
    expect(warm.status).toBe(200)
    const before = memoryMiBOf(pid).now
    const { body, digest } = zeros(150 * MIB)
    const headers = { 'content-digest': digest, 'content-length': String(150 * MIB) }
    expect((await bring({ ...one, port, body, headers })).status).toBe(200)
    expect(memoryMiBOf(pid).peak - before).toBeLessThanOrEqual(GROWTH_MIB_MAX)
    await close()
  },
)
