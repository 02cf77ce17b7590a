// Files of results: stored encrypted before the run's folder is removed, streamed after their result, across
// restarts. A file that is too large is never sent, and its result says so.
import { createHash, randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { createWorkFolder } from '../../../src/agent/run/work-folder.ts'
import type { Result } from '../../../src/contract/result.ts'
import { recorded, refusal, type Reply } from '../../support/agent/fake-platform.ts'
import { untilHolds } from '../../support/eventually.ts'
import {
  hurried,
  MONITOR,
  platformOf,
  result,
  slotOf,
  started,
  type Started,
} from '../../support/agent/delivery/started-delivery.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

/** Like an attempt: files are attached and stored, and the folder is removed. */
async function resultWith(
  one: Started,
  files: Record<string, Buffer>,
  number = 0,
): Promise<{ result: Result; leftOut: string[] }> {
  const folder = createWorkFolder(temporaryFolder(), {
    files: one.delivery.files,
    scrub: async () => new Map(),
  })
  const path = await folder.path()
  for (const [name, bytes] of Object.entries(files)) {
    writeFileSync(join(path, name), bytes)
    folder.attach(join(path, name))
  }
  const { artifacts, leftOut } = await folder.artifacts()
  await folder.remove()
  return { result: result(number, { artifacts }), leftOut }
}

const settings = () => ({ fullPassedEveryMs: 3_600_000, artifactBytesMax: 1024 * 1024 })
const trace = randomBytes(300_000)
const sha256 = createHash('sha256').update(trace).digest()

describe('a file', () => {
  test('is sent after its result, with its sum, and is removed from disk', async () => {
    const platform = await platformOf()
    const one = await started(temporaryFolder(), platform, { settings })
    let had = 0
    platform.replyToArtifact = () => {
      had = platform.has.size
      return { status: 200, body: '{}' }
    }
    const run = await resultWith(one, { 'trace 1.zip': trace, empty: Buffer.alloc(0) })
    await one.delivery.deliver(run.result)
    await untilHolds(() => expect(platform.artifacts).toHaveLength(2))
    const owner = `${MONITOR}.${slotOf(0)}`
    expect(platform.artifacts[0]).toMatchObject({
      path: `/agent/v1/artifacts/${owner}/trace%201.zip`,
      bytes: trace.length,
      sha256: sha256.toString('hex'),
    })
    expect(platform.artifacts[0]?.headers).toMatchObject({
      'content-length': String(trace.length),
      'content-digest': `sha-256=:${sha256.toString('base64')}:`,
    })
    expect(had).toBe(1)
    const { path = '', cipher } = one.folder
    const folder = join(path, `artifacts.${cipher.fingerprint}`)
    await untilHolds(() => expect(readdirSync(folder)).toEqual([]))
  })

  test('waits encrypted on disk while the platform is away, and is sent by the next start', async () => {
    const platform = await platformOf()
    const dataDir = temporaryFolder()
    platform.reply = () => refusal(503)
    const first = await started(dataDir, platform, { settings })
    const text = Buffer.from('tulip '.repeat(50_000))
    await first.delivery.deliver((await resultWith(first, { log: text })).result)
    const folder = join(first.folder.path ?? '', `artifacts.${first.folder.cipher.fingerprint}`)
    const stored = readdirSync(folder).map((name) => readFileSync(join(folder, name)))
    expect(stored.some((bytes) => bytes.includes('tulip'))).toBe(false)
    await first.end(0)
    expect(platform.artifacts).toEqual([])
    platform.reply = (batch) => recorded(batch)
    await started(dataDir, platform, { settings })
    await untilHolds(() => expect(platform.artifacts[0]?.bytes).toBe(text.length))
  })

  test('is sent after its result where API_KEY was exchanged in between', async () => {
    const [platform, dataDir] = [await platformOf(), temporaryFolder()]
    platform.reply = () => refusal(503)
    const first = await started(dataDir, platform, { settings })
    await first.delivery.deliver((await resultWith(first, { trace })).result)
    const { path = '', cipher } = first.folder
    await first.end(0)
    let had = 0
    platform.reply = (batch) => recorded(batch)
    platform.replyToArtifact = () => ((had = platform.has.size), { status: 200, body: '{}' })
    const keys = { apiKey: 'pl_fedcba9876543210', formerKeys: ['pl_0123456789abcdef'] }
    await started(dataDir, platform, { settings }, keys)
    await untilHolds(() => expect(platform.artifacts).toHaveLength(1))
    expect([had, platform.artifacts[0]?.sha256]).toEqual([1, sha256.toString('hex')])
    const folder = join(path, `artifacts.${cipher.fingerprint}`)
    await untilHolds(() => expect(readdirSync(folder)).toEqual([]))
  })

  test.each<[string, Reply, number, string]>([
    ['refused by the platform is given up', refusal(413), 0, 'refused_413'],
    ['refused by a proxy’s page stays', { status: 400, body: '<html>' }, 1, ''],
  ])('%s', async (_, reply, left, outcome) => {
    const platform = await platformOf()
    platform.replyToArtifact = () => reply
    const one = await started(temporaryFolder(), platform, { settings })
    await one.delivery.deliver((await resultWith(one, { log: Buffer.from('x') })).result)
    await untilHolds(() => expect(one.lines.join('')).toMatch(/is dropped|cannot be sent/))
    await untilHolds(() => expect(one.facts()).toMatchObject({ artifacts: left, delivered: 1 }))
    expect(await one.metrics()).toContain(outcome)
  })

  test('that is damaged on disk is given up, and the next one is sent', async () => {
    const platform = await platformOf()
    platform.reply = () => refusal(503)
    const one = await started(temporaryFolder(), platform, { settings })
    const folder = join(one.folder.path ?? '', `artifacts.${one.folder.cipher.fingerprint}`)
    await one.delivery.deliver((await resultWith(one, { first: trace })).result)
    const file = join(folder, readdirSync(folder).find((name) => name.endsWith('.data')) ?? '')
    const bytes = readFileSync(file)
    bytes[200_000] = (bytes[200_000] ?? 0) ^ 1
    writeFileSync(file, bytes)
    await one.delivery.deliver((await resultWith(one, { second: trace }, 1)).result)
    platform.reply = (batch) => recorded(batch)
    hurried(one.delivery)
    await untilHolds(() => expect(platform.artifacts.at(-1)?.path).toContain('second'))
    await untilHolds(() => expect(one.facts()['artifacts']).toBe(0))
  })
})

describe('a file that is left out', () => {
  test('is named with the reason, and the others stay', async () => {
    const platform = await platformOf()
    const small = { settings: () => ({ fullPassedEveryMs: 0, artifactBytesMax: 10 }) }
    const one = await started(temporaryFolder(), platform, small)
    const { result: run, leftOut } = await resultWith(one, { big: trace, little: Buffer.from('x') })
    expect(run.artifacts.map(({ name }) => name)).toEqual(['little'])
    expect(leftOut).toEqual(['big: it has 300000 bytes, more than the limit of 10'])
  })

  test('for want of room is reported, and older files make room for newer ones', async () => {
    const platform = await platformOf()
    platform.reply = () => refusal(503)
    const spoolBytesMax = 1024 * 1024
    const one = await started(temporaryFolder(), platform, { settings, spoolBytesMax })
    for (let number = 0; number < 6; number++) {
      await one.delivery.deliver((await resultWith(one, { trace }, number)).result)
    }
    expect(one.facts()).toMatchObject({ artifacts: 3, waiting: 6 })
    expect(await one.metrics()).toContain('vedette_artifacts_total{outcome="dropped"} 3')
    const { leftOut } = await resultWith(one, { huge: randomBytes(1024 * 1024) }, 9)
    expect(leftOut).toEqual(['huge: it has 1048576 bytes, and there is not enough disk space'])
  })
})
