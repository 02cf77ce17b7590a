// The spool on real files: results are there after a restart, and damage or a failing disk costs as little as it can.
import { cpSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { createAgentCipher } from '../../../../src/agent/delivery/spool/agent-cipher.ts'
import type { Spool, SpoolOptions } from '../../../../src/agent/delivery/spool/spool.ts'
import { writeResults } from '../../../../src/agent/delivery/spool/stored-results.ts'
import { openSpool, readAll } from '../../../support/agent/delivery/opened-spool.ts'
import { FAKE_KEY } from '../../../support/agent/fake-platform.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

const MIB = 1024 * 1024
const opened: Awaited<ReturnType<typeof openSpool>>[] = []
afterEach(async () => {
  vi.useRealTimers()
  for (const one of opened.splice(0)) {
    await one.spool.close()
    one.kill()
  }
})

async function open(dataDir: string, changes: Partial<SpoolOptions> = {}) {
  const one = await openSpool(dataDir, changes)
  opened.push(one)
  return one
}

/** Opens the spool again, as after a kill. */
async function reopened(one: { kill(): void }, dataDir: string) {
  one.kill()
  return open(dataDir)
}

/** Appends each entry on its own. */
async function append(spool: Spool, ...entries: string[]): Promise<void> {
  for (const entry of entries) await spool.append(entry, true)
}

const numbered = (count: number, from = 0) =>
  Array.from({ length: count }, (_, at) => `{"number":${from + at}}`)

/** Only one result in memory. */
const memoryBounds = { results: 1, bytes: MIB, unsafeBytes: MIB }

describe('a safe result', () => {
  test('is there after a kill, in its order, and not on disk once it is forgotten', async () => {
    const dataDir = temporaryFolder()
    const first = await open(dataDir)
    await append(first.spool, ...numbered(5))
    const { spool, files } = await reopened(first, dataDir)
    expect([spool.found, spool.waiting]).toEqual([5, 5])
    expect(await readAll(spool)).toEqual(numbered(5))
    expect([spool.waiting, spool.bytes, files()]).toEqual([0, 0, []])
  })

  test('uses one file for results that come together', async () => {
    const { spool, files } = await open(temporaryFolder())
    await Promise.all(numbered(400).map((entry) => spool.append(entry)))
    expect(files()).toHaveLength(1)
    expect(spool.takeRecent().map(({ entries }) => entries)).toEqual([numbered(400)])
  })

  test('cannot be read on disk', async () => {
    const { spool, files, path } = await open(temporaryFolder())
    await append(spool, '{"tulip":1}', JSON.stringify('tulip '.repeat(1000)))
    expect(files()).toHaveLength(2)
    for (const name of files()) {
      expect(readFileSync(join(path, name)).includes('tulip')).toBe(false)
    }
  })

  test('shares a file with others when it leaves the memory', async () => {
    const dataDir = temporaryFolder()
    const first = await open(dataDir, { memoryBounds })
    await Promise.all(numbered(100).map((entry) => first.spool.append(entry, true)))
    await first.spool.close()
    expect(first.files().length).toBeLessThan(10)
    const { spool } = await reopened(first, dataDir)
    expect(await readAll(spool)).toEqual(numbered(100))
  })

  test('that is delivered while it is written leaves no file', async () => {
    const { spool, files } = await open(temporaryFolder())
    const safe = spool.append('{}', true)
    const [one] = spool.takeRecent()
    if (one !== undefined) await spool.forget(one)
    await safe
    await spool.close()
    expect([spool.waiting, spool.bytes, files()]).toEqual([0, 0, []])
  })
})

test('files of version 8.4.0 are read', async () => {
  const dataDir = temporaryFolder()
  const fixture = join(import.meta.dirname, '../../../fixtures/kept-by-earlier')
  cpSync(fixture, dataDir, { recursive: true })
  const { spool } = await open(dataDir)
  expect(spool.found).toBe(30)
  expect(await readAll(spool)).toHaveLength(30)
})

test('the bound drops the oldest results, and counts them', async () => {
  const { spool, lines } = await open(temporaryFolder(), { bytesMax: MIB, memoryBounds })
  const big = (number: number) => `{"number":${number},"noise":"${noise(number)}"}`
  for (let number = 0; number < 60; number++) {
    await append(spool, big(number))
    expect(spool.bytes).toBeLessThanOrEqual(MIB)
  }
  await spool.close()
  const left = await readAll(spool)
  expect(spool.lost.full + left.length).toBe(60)
  expect(spool.lost.full).toBeGreaterThan(10)
  expect(left).toEqual(Array.from({ length: left.length }, (_, at) => big(60 - left.length + at)))
  expect(lines.some((line) => line.includes('the spool is full'))).toBe(true)
})

/** 32 KiB that cannot be packed. */
function noise(seed: number): string {
  let state = seed + 1
  let text = ''
  while (text.length < 32 * 1024) {
    state = (state * 48_271) % 2_147_483_647
    text += state.toString(36)
  }
  return text
}

test('damage costs the results that it hits, which are counted', async () => {
  const dataDir = temporaryFolder()
  const first = await open(dataDir)
  await append(first.spool, ...numbered(4))
  await first.spool.close()
  const [name = ''] = first.files()
  const bytes = readFileSync(join(first.path, name))
  bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1
  writeFileSync(join(first.path, name), bytes)
  const { spool, files } = await reopened(first, dataDir)
  expect(await readAll(spool)).toEqual(numbered(3))
  const { found, lost, damagedPlaces, waiting } = spool
  expect([found, lost.damaged, damagedPlaces, waiting, files()]).toEqual([4, 1, 1, 0, []])
})

describe('a disk that fails', () => {
  test('by a write that hangs counts as failed, and the late file is removed', async () => {
    vi.useFakeTimers()
    const place = { folder: temporaryFolder(), cipher: createAgentCipher(FAKE_KEY) }
    const hanging = Promise.withResolvers<void>()
    const content = { content: Buffer.from('x'), isFlushed: false }
    const counts = { at: 1, results: 1, characters: 1 }
    const writing = writeResults(place, counts, content, (path, bytes) => {
      writeFileSync(path, bytes)
      return hanging.promise
    })
    const failed = writing.catch(String)
    await vi.waitFor(() => expect(vi.getTimerCount()).toBe(1))
    vi.advanceTimersByTime(10_000)
    expect(await failed).toContain('10000 ms')
    expect(readdirSync(place.folder)).toHaveLength(1)
    hanging.resolve()
    vi.useRealTimers()
    await vi.waitFor(() => expect(readdirSync(place.folder)).toEqual([]))
  })

  test('costs no result, is logged once, and passes', async () => {
    const dataDir = temporaryFolder()
    vi.useFakeTimers({ toFake: ['Date'] })
    const first = await open(dataDir, { memoryBounds: { ...memoryBounds, results: 4 } })
    const { spool, path, lines } = first
    await append(spool, ...numbered(2))
    renameSync(path, `${path}.away`)
    writeFileSync(path, 'in the way')
    const unsafe = numbered(5, 2).map((entry) => spool.append(entry, true))
    await vi.waitFor(() => expect(spool.problem).toBeDefined())
    expect(lines).toHaveLength(1)
    rmSync(path)
    renameSync(`${path}.away`, path)
    vi.setSystemTime(Date.now() + 5000)
    await append(spool, ...numbered(1, 7))
    await Promise.all(unsafe)
    expect([spool.problem, spool.waiting]).toEqual([undefined, 8])
    const again = await reopened(first, dataDir)
    expect((await readAll(again.spool)).toSorted()).toEqual(numbered(8))
  })

  test('nothing is written while another agent owns the folder', async () => {
    const dataDir = temporaryFolder()
    const { spool, files, folder } = await open(dataDir)
    let isHeld = true
    vi.spyOn(folder, 'isHeld').mockImplementation(() => isHeld)
    await append(spool, ...numbered(1))
    isHeld = false
    void spool.append('{"number":1}', true).catch(() => undefined)
    await vi.waitFor(() => expect(spool.problem).toContain('locked by another agent'))
    expect(files()).toHaveLength(1)
  })
})
