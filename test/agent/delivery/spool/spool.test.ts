// The spool on real files: safe results are there after a restart, oldest first; forgotten ones are not. Damage
// costs the frames that it hits; a disk that fails costs safety and no result.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { array, assert, asyncProperty, nat, record, uint8Array } from 'fast-check'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { createAgentCipher } from '../../../../src/agent/delivery/spool/agent-cipher.ts'
import type { StoredResults } from '../../../../src/agent/delivery/stored-results.ts'
import {
  openSpool,
  type Spool,
  type SpoolOptions,
} from '../../../../src/agent/delivery/spool/spool.ts'
import { collectingLog } from '../../../support/collecting-log.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

const cipher = createAgentCipher('pl_0123456789abcdef')
const MIB = 1024 * 1024
const spools: Spool[] = []
afterEach(async () => {
  vi.useRealTimers()
  for (const spool of spools.splice(0)) await spool.close()
})

async function opened(folder: string, changes: Partial<SpoolOptions> = {}) {
  const stored: StoredResults[] = []
  const { log, lines } = collectingLog()
  const spool = await openSpool({
    folder,
    cipher,
    bytesMax: 64 * MIB,
    log,
    isHeld: () => true,
    onStored: (one) => stored.push(one),
    ...changes,
  })
  spools.push(spool)
  return { spool, stored, lines, folder }
}

/** Appends each entry as a frame of its own. */
async function append(spool: Spool, ...entries: string[]): Promise<void> {
  for (const entry of entries) await spool.append(entry, true)
}

/** Everything on disk, read back and forgotten. */
async function readAll(spool: Spool): Promise<string[]> {
  const entries: string[] = []
  for (let stored = await spool.next(); stored !== undefined; stored = await spool.next()) {
    entries.push(...stored.entries)
    await spool.forget([stored])
  }
  return entries
}

/** As after a kill: the files stay open. */
function segments(folder: string): string[] {
  return readdirSync(folder).filter((name) => name.endsWith('.seg'))
}

const numbered = (count: number, from = 0) =>
  Array.from({ length: count }, (_, at) => `{"number":${from + at}}`)

describe('a safe result', () => {
  test('is there after a restart, in its order, no matter which process was killed in between', async () => {
    const { spool, folder } = await opened(temporaryFolder())
    await append(spool, ...numbered(5))
    const again = await opened(folder)
    expect(again.spool.waiting).toBe(5)
    expect(await readAll(again.spool)).toEqual(numbered(5))
    expect(again.spool.waiting).toBe(0)
    expect(readdirSync(folder).filter((name) => name.endsWith('.done'))).toEqual([])
  })

  test('uses one write for results that come together', async () => {
    const { spool, stored } = await opened(temporaryFolder())
    await Promise.all(numbered(400).map((entry) => spool.append(entry)))
    expect(stored.map(({ entries }) => entries.length)).toEqual([400])
    expect(stored[0]?.entries).toEqual(numbered(400))
  })

  test('cannot be read on disk', async () => {
    const { spool, folder } = await opened(temporaryFolder())
    await append(spool, '{"tulip":1}', JSON.stringify('tulip '.repeat(1000)))
    const bytes = readFileSync(join(folder, segments(folder)[0] ?? ''))
    expect(bytes.includes('tulip')).toBe(false)
    expect(await readAll((await opened(folder)).spool)).toHaveLength(2)
  })

  test('is not sent again when it was forgotten, before or after a restart', async () => {
    const { spool, stored, folder } = await opened(temporaryFolder())
    await append(spool, ...numbered(6))
    await spool.forget(stored.filter((_, at) => at !== 1 && at !== 4))
    const again = await opened(folder)
    expect(again.spool.waiting).toBe(2)
    const one = await again.spool.next()
    expect(one?.entries).toEqual(numbered(1, 1))
    await again.spool.forget(one === undefined ? [] : [one])
    expect(await readAll((await opened(folder)).spool)).toEqual(numbered(1, 4))
  })

  test('is read back when it is given back, while newer results come', async () => {
    const { spool, stored } = await opened(temporaryFolder())
    await append(spool, ...numbered(3))
    expect(await spool.next()).toBeUndefined()
    for (const one of stored.slice(0, 2)) expect(spool.giveBack(one)).toBe(true)
    const first = await spool.next()
    await append(spool, ...numbered(1, 3))
    if (first !== undefined) spool.giveBack(first)
    expect(await readAll(spool)).toEqual([...numbered(1, 1), ...numbered(1, 0)])
    expect(spool.waiting).toBe(2)
    await spool.forget(stored.slice(2))
    expect(spool.waiting).toBe(0)
  })

  test('leaves nothing behind when all of it is forgotten', async () => {
    const { spool, stored, folder } = await opened(temporaryFolder())
    await append(spool, ...numbered(3))
    await spool.forget(stored)
    await spool.close()
    expect(readdirSync(folder)).toEqual([])
  })
})

describe('the bound', () => {
  const big = (number: number) => `{"number":${number},"noise":"${noise(number)}"}`

  test('drops the oldest results, and counts them', async () => {
    const { spool, stored, lines, folder } = await opened(temporaryFolder(), { bytesMax: MIB })
    for (let number = 0; number < 60; number++) {
      await append(spool, big(number))
      const one = stored.at(-1)
      if (one !== undefined) spool.giveBack(one)
      expect(spool.bytes()).toBeLessThanOrEqual(MIB)
    }
    const left = await readAll(spool)
    expect(spool.lost.full + left.length).toBe(60)
    expect(spool.lost.full).toBeGreaterThan(10)
    expect(left.at(-1)).toBe(big(59))
    expect(left).toEqual(left.toSorted((a, b) => numberOf(a) - numberOf(b)))
    expect(lines.some((line) => line.includes('the spool is full'))).toBe(true)
    expect(segments(folder).length).toBeLessThan(10)
  })

  test('does not count results that are held in memory until they are given back', async () => {
    const { spool, stored } = await opened(temporaryFolder(), { bytesMax: MIB })
    for (let number = 0; number < 60; number++) await append(spool, big(number))
    expect([spool.lost.full, spool.waiting]).toEqual([0, 60])
    for (const one of stored) expect(spool.giveBack(one)).toBe(true)
    const left = await readAll(spool)
    expect(spool.lost.full + left.length).toBe(60)
    expect(spool.waiting).toBe(0)
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

function numberOf(entry: string): number {
  return (JSON.parse(entry) as { number: number }).number
}

describe('damage', () => {
  async function aSpool(): Promise<{ folder: string; file: string; bytes: Buffer }> {
    const { spool, folder } = await opened(temporaryFolder())
    await append(spool, ...numbered(4))
    await spool.close()
    const file = join(folder, segments(folder)[0] ?? '')
    return { folder, file, bytes: readFileSync(file) }
  }

  test('of any one byte costs one frame at most', async () => {
    const { bytes } = await aSpool()
    for (let at = 0; at < bytes.length; at++) {
      for (const change of [0x01, 0xff]) {
        const folder = emptied()
        const changed = Buffer.from(bytes)
        changed[at] = (changed[at] ?? 0) ^ change
        writeFileSync(join(folder, '0000000000000001.seg'), changed)
        const { spool } = await opened(folder)
        const left = await readAll(spool)
        expect(left.length, `byte ${at}`).toBeGreaterThanOrEqual(3)
        expect(numbered(4)).toEqual(expect.arrayContaining(left))
        expect(spool.waiting).toBe(0)
      }
    }
  })

  test('by a cut at any byte costs the frames after it', async () => {
    const { bytes } = await aSpool()
    const frames: number[] = []
    for (let at = 0; at <= bytes.length; at++) {
      const folder = emptied()
      writeFileSync(join(folder, '0000000000000001.seg'), bytes.subarray(0, at))
      const { spool } = await opened(folder)
      const left = await readAll(spool)
      expect(left).toEqual(numbered(left.length))
      frames.push(left.length)
    }
    expect(frames.at(-1)).toBe(4)
    expect(frames).toEqual(frames.toSorted((a, b) => a - b))
  })

  test('of any kind ends nothing, and nothing comes back that was never there', async () => {
    const { bytes } = await aSpool()
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
        const folder = emptied()
        writeFileSync(join(folder, '0000000000000001.seg'), changed)
        const { spool } = await opened(folder)
        expect(numbered(4)).toEqual(expect.arrayContaining(await readAll(spool)))
      }),
      { numRuns: 200 },
    )
  })

  test('of the notes of delivered frames costs a second delivery, not a result', async () => {
    const { spool, stored, folder } = await opened(temporaryFolder())
    await append(spool, ...numbered(4))
    await spool.forget(stored.slice(0, 2))
    const notes = readdirSync(folder).find((name) => name.endsWith('.done')) ?? ''
    const bytes = readFileSync(join(folder, notes))
    for (let at = 0; at < bytes.length; at++) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] ?? 0) ^ 0xff
      writeFileSync(join(folder, notes), changed)
      const { spool: again } = await opened(folder)
      expect(again.waiting, `byte ${at}`).toBe(4)
    }
  })

  test('while it runs is counted in results', async () => {
    const { spool, stored, lines, folder } = await opened(temporaryFolder())
    await append(spool, ...numbered(4))
    for (const one of stored) spool.giveBack(one)
    const file = join(folder, segments(folder)[0] ?? '')
    const bytes = readFileSync(file)
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1
    writeFileSync(file, bytes)
    expect(await readAll(spool)).toEqual(numbered(3))
    expect([spool.lost.damaged, spool.waiting]).toEqual([1, 0])
    expect(lines).toEqual([])
  })

  test('a file of a later version is left alone, and named', async () => {
    const { folder, file, bytes } = await aSpool()
    bytes.writeUInt16BE(2, 4)
    bytes.writeUInt16BE(0xfffd, 6)
    writeFileSync(file, bytes)
    const { spool, lines } = await opened(folder)
    expect(await readAll(spool)).toEqual([])
    await append(spool, ...numbered(1))
    expect(existsSync(file)).toBe(true)
    expect(spool.bytes()).toBeGreaterThan(bytes.length)
    expect(lines.join()).toContain('left alone')
  })

  test('data under another key is not read, and is counted', async () => {
    const { folder } = await aSpool()
    const other = await opened(folder, { cipher: createAgentCipher('pl_another_key') })
    expect(await readAll(other.spool)).toEqual([])
    expect(other.spool.lost.damaged).toBe(4)
  })
})

let once: string | undefined
/** One folder for thousands of tries, empty each time. */
function emptied(): string {
  once ??= join(temporaryFolder(), 'spool')
  rmSync(once, { recursive: true, force: true })
  mkdirSync(once)
  return once
}

describe('a disk that fails', () => {
  /** Files whose writes fail while `error` is set. */
  function failing() {
    const state: { error: string | undefined } = { error: undefined }
    const openFile: typeof open = async (...args) => {
      const file = await open(...args)
      const write = file.write.bind(file) as (...given: unknown[]) => Promise<unknown>
      const failed = async (...given: unknown[]) => {
        if (state.error === undefined) return write(...given)
        // A full disk writes a part.
        await write(given[0], given[1], 3, given[3])
        throw Object.assign(new Error(state.error), { code: state.error })
      }
      return Object.assign(file, { write: failed })
    }
    return { state, openFile }
  }

  test.each(['ENOSPC', 'EIO', 'EROFS'])(
    '%s costs no result, is logged once, and passes',
    async (code) => {
      vi.useFakeTimers({ toFake: ['Date'] })
      const { state, openFile } = failing()
      const recovered = vi.fn<() => void>()
      const { spool, stored, lines, folder } = await opened(temporaryFolder(), {
        openFile,
        onRecovered: recovered,
      })
      await append(spool, ...numbered(2))
      state.error = code
      const unsafe = [...numbered(3, 2)].map((entry) => spool.append(entry, true))
      await expect.poll(() => stored).toHaveLength(5)
      expect(stored.slice(2).map((one) => spool.giveBack(one))).toEqual([false, false, false])
      expect([spool.problem, lines.length]).toEqual([code, 1])
      state.error = undefined
      vi.setSystemTime(Date.now() + 5000)
      await append(spool, ...numbered(1, 5))
      expect([spool.problem, recovered.mock.calls.length]).toEqual([undefined, 1])
      for (const one of stored.slice(2, 5)) expect(await spool.rescue(one)).toBe(true)
      await Promise.all(unsafe)
      const again = await opened(folder)
      expect((await readAll(again.spool)).toSorted()).toEqual(numbered(6))
      expect([again.spool.damagedPlaces, again.spool.lost.damaged]).toEqual([0, 0])
      await spool.forget(stored)
      expect(spool.waiting).toBe(0)
    },
  )

  test('for good gives up what does not fit in memory, reported to the caller that waits', async () => {
    const { spool, stored } = await opened(join(temporaryFolder(), 'x'), { folder: undefined })
    const waits = spool.append('{}', true)
    await expect.poll(() => stored).toHaveLength(1)
    if (stored[0] !== undefined) spool.drop(stored[0])
    await expect(waits).rejects.toThrow('no room')
    expect([spool.lost.memory, spool.waiting]).toEqual([1, 0])
  })

  test('a folder that cannot be created is reported, and everything is in memory', async () => {
    const file = join(temporaryFolder(), 'file')
    writeFileSync(file, '')
    const { spool, stored } = await opened(join(file, 'spool'))
    expect(spool.problem).toContain('file')
    const safe = spool.append('{}', true)
    await expect.poll(() => stored).toHaveLength(1)
    await spool.forget(stored)
    await safe
    expect(spool.waiting).toBe(0)
  })

  test('a folder that is removed is created again, and held results are written again', async () => {
    const { spool, stored, folder } = await opened(join(temporaryFolder(), 'spool'))
    await append(spool, ...numbered(2))
    rmSync(folder, { recursive: true })
    await append(spool, ...numbered(1, 2))
    expect(stored.map((one) => spool.giveBack(one))).toEqual([false, false, true])
    for (const one of stored.slice(0, 2)) expect(await spool.rescue(one)).toBe(true)
    expect((await readAll((await opened(folder)).spool)).toSorted()).toEqual(numbered(3))
  })

  test('nothing is written while another agent owns the folder', async () => {
    let isHeld = true
    const { spool, stored, folder } = await opened(temporaryFolder(), { isHeld: () => isHeld })
    await append(spool, ...numbered(1))
    isHeld = false
    void spool.append('{"number":1}', true)
    await expect.poll(() => stored).toHaveLength(2)
    expect((await readAll((await opened(folder)).spool)).length).toBe(1)
    await spool.forget(stored.slice(1))
  })
})

test('a great spool is read a file at a time', async () => {
  const { spool, stored, folder } = await opened(temporaryFolder(), { bytesMax: MIB })
  for (let number = 0; number < 24; number++) await append(spool, `"${noise(number)}"`)
  for (const one of stored) spool.giveBack(one)
  await spool.close()
  expect(segments(folder).length).toBeGreaterThan(3)
  const again = await opened(folder, { bytesMax: MIB })
  for (let left = 24; left > 0; left--) {
    const one = await again.spool.next()
    expect(again.spool.waiting).toBe(left)
    await again.spool.forget(one === undefined ? [] : [one])
  }
  expect(segments(folder)).toEqual([])
})
