// The account of a spool over a restart: results of an earlier run are counted. Damaged ones are counted in
// results where a frame's head still has their number.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { createAgentCipher } from '../../../../src/agent/delivery/spool/agent-cipher.ts'
import { FILE_HEAD_BYTES, FRAME_HEAD_BYTES } from '../../../../src/agent/delivery/spool/frame.ts'
import type { StoredResults } from '../../../../src/agent/delivery/stored-results.ts'
import { openSpool, type Spool } from '../../../../src/agent/delivery/spool/spool.ts'
import { collectingLog } from '../../../support/collecting-log.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

const spools: Spool[] = []
afterEach(async () => {
  for (const spool of spools.splice(0)) await spool.close()
})

async function opened(folder: string, stored: StoredResults[] = []): Promise<Spool> {
  const spool = await openSpool({
    folder,
    cipher: createAgentCipher('pl_0123456789abcdef'),
    bytesMax: 1e9,
    log: collectingLog().log,
    isHeld: () => true,
    onStored: (one) => stored.push(one),
  })
  spools.push(spool)
  return spool
}

/** A spool of three frames with two results each; the first of them is delivered where `done` says so. */
async function left(done = false) {
  const folder = temporaryFolder()
  const stored: StoredResults[] = []
  const spool = await opened(folder, stored)
  for (let frame = 0; frame < 3; frame++) {
    const first = spool.append(`{"result":${2 * frame}}`)
    await Promise.all([first, spool.append(`{"result":${2 * frame + 1}}`, true)])
  }
  if (done) await spool.forget(stored.slice(0, 1))
  await spool.close()
  const name = (ending: string) => readdirSync(folder).find((one) => one.endsWith(ending)) ?? ''
  const bytes = readFileSync(join(folder, name('.seg')))
  const frameBytes = (bytes.length - FILE_HEAD_BYTES) / 3
  return { folder, name: name('.seg'), bytes, frameBytes }
}

/** The spool, opened again with other bytes. */
async function reopened({ folder, name }: { folder: string; name: string }, bytes: Buffer) {
  writeFileSync(join(folder, name), bytes)
  const { found, waiting, lost, damagedPlaces } = await opened(folder)
  return { found, waiting, damaged: lost.damaged, places: damagedPlaces }
}

test('results of an earlier run are counted as found', async () => {
  const before = await left()
  const whole = { found: 6, waiting: 6, damaged: 0, places: 0 }
  expect(await reopened(before, before.bytes)).toEqual(whole)
})

describe('a frame that was damaged before the start', () => {
  test('is counted in results where its payload is hit, at whichever byte', async () => {
    const before = await left()
    const { bytes, frameBytes } = before
    for (let at = FRAME_HEAD_BYTES; at < frameBytes; at++) {
      const changed = Buffer.from(bytes)
      const place = FILE_HEAD_BYTES + frameBytes + at
      changed[place] = (changed[place] ?? 0) ^ 0x10
      const counts = { found: 6, waiting: 4, damaged: 2, places: 0 }
      expect(await reopened(before, changed), `byte ${at}`).toEqual(counts)
    }
  })

  test('is never counted as more or fewer than it held, at whichever bit of its head', async () => {
    const before = await left()
    const { bytes } = before
    for (let bit = 0; bit < FRAME_HEAD_BYTES * 8; bit++) {
      const changed = Buffer.from(bytes)
      const place = FILE_HEAD_BYTES + (bit >> 3)
      changed[place] = (changed[place] ?? 0) ^ (1 << (bit & 7))
      const { found, waiting, damaged, places } = await reopened(before, changed)
      expect([waiting, found - damaged], `bit ${bit}`).toEqual([4, 4])
      expect([2, 0], `bit ${bit}`).toContain(damaged)
      expect(places, `bit ${bit}`).toBe(damaged === 0 ? 1 : 0)
    }
  })

  test('is counted where it was torn off at the end', async () => {
    const before = await left()
    const counts = { found: 6, waiting: 4, damaged: 2, places: 0 }
    expect(await reopened(before, before.bytes.subarray(0, -3))).toEqual(counts)
  })

  test('is not counted where it had been delivered', async () => {
    const before = await left(true)
    const { bytes } = before
    const changed = Buffer.from(bytes)
    const place = FILE_HEAD_BYTES + FRAME_HEAD_BYTES
    changed[place] = (changed[place] ?? 0) ^ 1
    const counts = { found: 4, waiting: 4, damaged: 0, places: 0 }
    expect(await reopened(before, changed)).toEqual(counts)
  })

  test('of another file, copied into this one, is none of its own', async () => {
    const [one, other] = [await left(), await left()]
    const torn = other.bytes.subarray(FILE_HEAD_BYTES, FILE_HEAD_BYTES + other.frameBytes - 1)
    const mixed = Buffer.concat([one.bytes, torn])
    const counts = { found: 6, waiting: 6, damaged: 0, places: 1 }
    expect(await reopened(one, mixed)).toEqual(counts)
    rmSync(one.folder, { recursive: true })
    mkdirSync(one.folder)
  })
})
