// Files of results: stored encrypted, sent after their result, across restarts; a result names those left out.
import { createHash, randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { createWorkFolder } from '../../../src/agent/run/work-folder.ts'
import type { Result } from '../../../src/contract/result.ts'
import { FAKE_KEY, recorded, refusal, type Reply } from '../../support/agent/fake-platform.ts'
import { untilHolds } from '../../support/eventually.ts'
import {
  hurried,
  MONITOR,
  platformOf,
  result,
  slotOf,
  started,
  startedFresh,
  type Started,
} from '../../support/agent/delivery/started-delivery.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

/** Like an attempt: files are attached and stored, and the folder is removed. */
async function resultWith(
  one: Started,
  files: Record<string, Buffer>,
  number = 0,
): Promise<{ result: Result; leftOut: string[] }> {
  const { files: store } = one.delivery
  const folder = createWorkFolder(temporaryFolder(), { files: store, scrub: async () => new Map() })
  const path = await folder.path()
  for (const [name, bytes] of Object.entries(files)) {
    writeFileSync(join(path, name), bytes)
    folder.attach(join(path, name))
  }
  const { artifacts, leftOut } = await folder.artifacts()
  await folder.remove()
  return { result: result(number, { artifacts }), leftOut }
}

const folderOf = ({ folder: { path = '', cipher } }: Started) =>
  join(path, `artifacts.${cipher.fingerprint}`)
const settings = () => ({ fullPassedEveryMs: 3_600_000, artifactBytesMax: 1024 * 1024 })
const trace = randomBytes(300_000)
const sha256 = createHash('sha256').update(trace).digest()

describe('a file', () => {
  test('is sent after its result, with its sum, and is removed from disk', async () => {
    const one = await startedFresh(recorded, { settings })
    const { platform } = one
    let had = 0
    platform.replyToArtifact = () => ((had = platform.has.size), { status: 200, body: '{}' })
    const run = await resultWith(one, { 'trace 1.zip': trace, empty: Buffer.alloc(0) })
    await one.delivery.deliver(run.result)
    await untilHolds(() => expect(platform.artifacts).toHaveLength(2))
    expect(platform.artifacts[0]).toMatchObject({
      path: `/agent/v1/artifacts/${MONITOR}.${slotOf(0)}/trace%201.zip`,
      bytes: trace.length,
      sha256: sha256.toString('hex'),
      headers: {
        'content-length': String(trace.length),
        'content-digest': `sha-256=:${sha256.toString('base64')}:`,
      },
    })
    expect(had).toBe(1)
    await untilHolds(() => expect(readdirSync(folderOf(one))).toEqual([]))
  })

  test('waits encrypted on disk while the platform is away, and is sent by the next start', async () => {
    const [platform, dataDir] = [await platformOf(), temporaryFolder()]
    platform.reply = () => refusal(503)
    const first = await started(dataDir, platform, { settings })
    const text = Buffer.from('tulip '.repeat(50_000))
    await first.delivery.deliver((await resultWith(first, { log: text })).result)
    const folder = folderOf(first)
    const stored = readdirSync(folder).map((name) => readFileSync(join(folder, name)))
    expect(stored.some((bytes) => bytes.includes('tulip'))).toBe(false)
    await first.end(0)
    expect(platform.artifacts).toEqual([])
    platform.reply = recorded
    await started(dataDir, platform, { settings })
    await untilHolds(() => expect(platform.artifacts[0]?.bytes).toBe(text.length))
  })

  test('is sent after its result where API_KEY was exchanged in between', async () => {
    const [platform, dataDir] = [await platformOf(), temporaryFolder()]
    platform.reply = () => refusal(503)
    const first = await started(dataDir, platform, { settings })
    await first.delivery.deliver((await resultWith(first, { trace })).result)
    await first.end(0)
    let had = 0
    platform.reply = recorded
    platform.replyToArtifact = () => ((had = platform.has.size), { status: 200, body: '{}' })
    const keys = { apiKey: 'pl_fedcba9876543210', formerKeys: [FAKE_KEY] }
    await started(dataDir, platform, { settings }, keys)
    await untilHolds(() => expect(platform.artifacts).toHaveLength(1))
    expect([had, platform.artifacts[0]?.sha256]).toEqual([1, sha256.toString('hex')])
    await untilHolds(() => expect(readdirSync(folderOf(first))).toEqual([]))
  })

  test.each<[string, Reply, number, string]>([
    ['refused by the platform is given up', refusal(413), 0, 'refused_413'],
    ['refused by a proxy’s page stays', { status: 400, body: '<html>' }, 1, ''],
  ])('%s', async (_, reply, left, outcome) => {
    const one = await startedFresh(recorded, { settings })
    one.platform.replyToArtifact = () => reply
    await one.delivery.deliver((await resultWith(one, { log: Buffer.from('x') })).result)
    await untilHolds(() => expect(one.lines.join('')).toMatch(/is dropped|cannot be sent/))
    await untilHolds(() => expect(one.facts()).toMatchObject({ artifacts: left, delivered: 1 }))
    expect(await one.metrics()).toContain(outcome)
  })

  test('that is damaged on disk is given up, and the next one is sent', async () => {
    const one = await startedFresh(() => refusal(503), { settings })
    const { platform } = one
    const folder = folderOf(one)
    await one.delivery.deliver((await resultWith(one, { first: trace })).result)
    const file = join(folder, readdirSync(folder).find((name) => name.endsWith('.data')) ?? '')
    const bytes = readFileSync(file)
    bytes[200_000] = (bytes[200_000] ?? 0) ^ 1
    writeFileSync(file, bytes)
    await one.delivery.deliver((await resultWith(one, { second: trace }, 1)).result)
    platform.reply = recorded
    hurried(one.delivery)
    await untilHolds(() => expect(platform.artifacts.at(-1)?.path).toContain('second'))
    await untilHolds(() => expect(one.facts()['artifacts']).toBe(0))
  })
})

test('a file that is left out is named with the reason, and the others stay', async () => {
  const small = { settings: () => ({ fullPassedEveryMs: 0, artifactBytesMax: 10 }) }
  const one = await startedFresh(recorded, small)
  const { result: run, leftOut } = await resultWith(one, { big: trace, little: Buffer.from('x') })
  expect(run.artifacts.map(({ name }) => name)).toEqual(['little'])
  expect(leftOut).toEqual(['big: it has 300000 bytes, more than the limit of 10'])
})

test('a file that is left out for want of room is reported, and older files make room for newer ones', async () => {
  const bounds = { settings, spoolBytesMax: 1024 * 1024 }
  const one = await startedFresh(() => refusal(503), bounds)
  for (let number = 0; number < 6; number++) {
    await one.delivery.deliver((await resultWith(one, { trace }, number)).result)
  }
  expect(one.facts()).toMatchObject({ artifacts: 3, waiting: 6 })
  expect(await one.metrics()).toContain('vedette_artifacts_total{outcome="dropped"} 3')
  const { leftOut } = await resultWith(one, { huge: randomBytes(1024 * 1024) }, 9)
  expect(leftOut).toEqual(['huge: it has 1048576 bytes, and there is not enough disk space'])
})
