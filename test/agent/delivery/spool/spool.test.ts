// The spool on real files: safe results are there after a restart, oldest first; forgotten ones are not. Damage
// costs the frames that it hits; a disk that fails costs safety and no result.
import { cpSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { array, assert, asyncProperty, nat, record, uint8Array } from 'fast-check'
import { afterEach, describe, expect, test, vi } from 'vitest'
import type { Spool, SpoolOptions } from '../../../../src/agent/delivery/spool/spool.ts'
import { openSpool, readAll } from '../../../support/agent/delivery/opened-spool.ts'
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
    const some = numbered(100).map((entry) => first.spool.append(entry, true))
    await Promise.all(some)
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

describe('the bound', () => {
  test('drops the oldest results, and counts them', async () => {
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

describe('damage', () => {
  /** A file with four frames, whose content can be changed before it is read. */
  async function aFile() {
    const dataDir = temporaryFolder()
    const { spool, files, path, folder } = await open(dataDir)
    await append(spool, ...numbered(4))
    await spool.close()
    const [name = ''] = files()
    const bytes = readFileSync(join(path, name))
    return {
      bytes,
      read: async (changed: Uint8Array) => {
        mkdirSync(path, { recursive: true })
        writeFileSync(join(path, name), changed)
        const { spool: again } = await openSpool(dataDir, { folder })
        const entries = await readAll(again)
        expect([again.found, again.lost.damaged + entries.length, again.waiting]).toEqual([4, 4, 0])
        expect(again.damagedPlaces).toBe(entries.length === 4 ? 0 : 1)
        return entries
      },
    }
  }

  test('of any one byte costs one frame at most, and is counted in results', async () => {
    const { bytes, read } = await aFile()
    for (let at = 0; at < bytes.length; at++) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] ?? 0) ^ (at % 2 === 0 ? 0x01 : 0xff)
      const left = await read(changed)
      expect(left.length, `byte ${at}`).toBeGreaterThanOrEqual(3)
      expect(numbered(4)).toEqual(expect.arrayContaining(left))
    }
  })

  test('by a cut at any byte costs the frames after it', async () => {
    const { bytes, read } = await aFile()
    const frames: number[] = []
    for (let at = 0; at <= bytes.length; at++) {
      const left = await read(bytes.subarray(0, at))
      expect(left).toEqual(numbered(left.length))
      frames.push(left.length)
    }
    expect(frames.at(-1)).toBe(4)
    expect(frames).toEqual(frames.toSorted((a, b) => a - b))
  })

  test('of any kind ends nothing, and nothing comes back that was never there', async () => {
    const { bytes, read } = await aFile()
    const change = record({
      from: nat(bytes.length),
      remove: nat(100),
      put: uint8Array({ maxLength: 100 }),
    })
    await assert(
      asyncProperty(array(change, { minLength: 1, maxLength: 4 }), async (changes) => {
        let changed = bytes
        for (const { from, remove, put } of changes) {
          changed = Buffer.concat([changed.subarray(0, from), put, changed.subarray(from + remove)])
        }
        expect(numbered(4)).toEqual(expect.arrayContaining(await read(changed)))
      }),
      { numRuns: 200 },
    )
  })
})

describe('a disk that fails', () => {
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

  test('for good gives up what does not fit in memory, reported to the caller that waits', async () => {
    const dataDir = join(process.execPath, 'no-folder')
    const { spool } = await open(dataDir, { memoryBounds: { ...memoryBounds, unsafeBytes: 30 } })
    const outcomes = await Promise.allSettled([
      spool.append('{"number":0}', true),
      spool.append('{"number":1}', true),
      spool.append('{"number":2}', true),
      spool.append('{"number":3}', true),
      spool.close(),
    ])
    const reasons = outcomes.slice(0, 4).map(({ status }) => status)
    expect(reasons).toEqual(Array.from({ length: 4 }, () => 'rejected'))
    expect([spool.lost.memory, spool.waiting]).toEqual([4, 0])
  })

  test('nothing is written while another agent owns the folder', async () => {
    const dataDir = temporaryFolder()
    const { spool, files, folder } = await open(dataDir)
    let isHeld = true
    vi.spyOn(folder, 'isHeld').mockImplementation(() => isHeld)
    await append(spool, ...numbered(1))
    isHeld = false
    void spool.append('{"number":1}', true).catch(() => undefined)
    await vi.waitFor(() => expect(spool.problem).toContain('not ours'))
    expect(files()).toHaveLength(1)
  })
})
