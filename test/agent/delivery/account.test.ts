// Over restarts, kills and new keys: produced + adopted = delivered + refused + dropped + waiting, at any time.
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { createAgentCipher } from '../../../src/agent/delivery/spool/agent-cipher.ts'
import { FAKE_KEY as OLD, recorded } from '../../support/agent/fake-platform.ts'
import { untilHolds } from '../../support/eventually.ts'
import {
  deliver,
  hurried,
  left,
  platformOf,
  started,
  type Started,
} from '../../support/agent/delivery/started-delivery.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const NEW = 'pl_fedcba9876543210'
const FORMER_SPOOL = `spool.${createAgentCipher(OLD).fingerprint}`
const rotated = { apiKey: NEW, formerKeys: [OLD] }

/** The two sides of the equation, from the metrics. */
async function sides({ metrics }: Started): Promise<{ came: number; went: number }> {
  const text = await metrics()
  const sum = (name: string) => {
    const values = [...text.matchAll(new RegExp(`^${name}(?:{.*})? (\\d+)$`, 'gm'))]
    return values.reduce((all, [, value]) => all + Number(value), 0)
  }
  return {
    came: sum('vedette_results_produced_total') + sum('vedette_results_adopted_total'),
    went:
      sum('vedette_results_delivered_total') +
      sum('vedette_results_refused_total') +
      sum('vedette_spool_dropped_results_total') +
      sum('vedette_results_waiting'),
  }
}

describe('the results of an earlier process', () => {
  test.each([
    ['in the agent’s own folder', {}, true],
    ['under a former key, whose folder is removed', rotated, false],
  ])('%s are counted as adopted', async (_, keys, isKept) => {
    const [platform, dataDir] = [await platformOf(), temporaryFolder()]
    const path = await left(dataDir, platform)
    const spools = () => readdirSync(path).filter((name) => name === FORMER_SPOOL)
    expect(spools()).toHaveLength(1)
    const one = await started(dataDir, platform, {}, keys)
    const { delivery, facts, end } = one
    await deliver(delivery, 10, 5)
    expect(facts()).toMatchObject({ produced: 5, adopted: 10, waiting: 15 })
    expect(await sides(one)).toEqual({ came: 15, went: 15 })
    platform.reply = recorded
    hurried(delivery)
    await untilHolds(() => expect(facts()).toMatchObject({ delivered: 15, waiting: 0 }))
    expect(await sides(one)).toEqual({ came: 15, went: 15 })
    await end()
    expect(spools()).toHaveLength(isKept ? 1 : 0)
  })

  test('in a folder next to it are counted while they are delivered, damage included, and after', async () => {
    const [platform, dataDir] = [await platformOf(), temporaryFolder()]
    const path = await left(dataDir, platform)
    const spool = join(path, FORMER_SPOOL)
    const file = join(spool, readdirSync(spool)[0] ?? '')
    const bytes = readFileSync(file)
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1
    writeFileSync(file, bytes)
    renameSync(path, join(dataDir, 'agents/2'))
    const one = await started(dataDir, platform)
    const { delivery, facts } = one
    await untilHolds(() => expect(facts()['adopted']).toBe(10))
    expect(await sides(one)).toEqual({ came: 10, went: 10 })
    // The damage is found when that part is read.
    await untilHolds(() => expect(facts()['lost']).toBeGreaterThan(0))
    expect(await sides(one)).toEqual({ came: 10, went: 10 })
    platform.reply = recorded
    hurried(delivery)
    await untilHolds(() => expect(facts()['waiting']).toBe(0))
    expect(await sides(one)).toEqual({ came: 10, went: 10 })
  })

  test('that was taken over and is not delivered stays for the next start', async () => {
    const [platform, dataDir] = [await platformOf(), temporaryFolder()]
    renameSync(await left(dataDir, platform), join(dataDir, 'agents/2'))
    const { facts, end } = await started(dataDir, platform)
    await untilHolds(() => expect(facts()['adopted']).toBe(10))
    await end(0)
    expect(facts()).toMatchObject({ delivered: 0, waiting: 10, lost: 0 })
    expect((await started(dataDir, platform)).facts()).toMatchObject({ adopted: 10, waiting: 10 })
  })
})

describe('after API_KEY was exchanged', () => {
  test('results of a neighbouring agent under the former key are delivered', async () => {
    const [platform, dataDir] = [await platformOf(), temporaryFolder()]
    renameSync(await left(dataDir, platform), join(dataDir, 'agents/2'))
    platform.reply = recorded
    const { facts } = await started(dataDir, platform, {}, rotated)
    await untilHolds(() => expect(facts()).toMatchObject({ adopted: 10, delivered: 10 }))
    expect(platform.has.size).toBe(10)
  })

  test('stored monitors are decrypted with the former key, and stored under the new one', async () => {
    const [platform, dataDir] = [await platformOf(), temporaryFolder()]
    const before = await started(dataDir, platform)
    await before.folder.store('monitors', Buffer.from('of before'))
    await before.end()
    const after = await started(dataDir, platform, {}, rotated)
    expect((await after.folder.read('monitors'))?.toString()).toBe('of before')
    await after.folder.store('monitors', Buffer.from('of now'))
    await after.end()
    const later = await started(dataDir, platform, {}, { apiKey: NEW })
    expect((await later.folder.read('monitors'))?.toString()).toBe('of now')
  })
})

describe('a disk that cannot be used at the start', () => {
  test('is used as soon as possible, with the results there and those in memory', async () => {
    const [platform, dataDir] = [await platformOf(), temporaryFolder()]
    const path = await left(dataDir, platform)
    renameSync(join(dataDir, 'agents'), join(dataDir, 'away'))
    writeFileSync(join(dataDir, 'agents'), 'in the way')
    const one = await started(dataDir, platform, {}, { retryMs: 50 })
    const { delivery, facts, folder, end, metrics } = one
    const { id } = folder
    void deliver(delivery, 10, 5)
    await untilHolds(() => expect(facts()['waiting']).toBe(5))
    expect(delivery.warnings().join()).toContain('in memory')
    expect(await metrics()).toContain('vedette_spool_on_disk 0')
    rmSync(join(dataDir, 'agents'))
    renameSync(join(dataDir, 'away'), join(dataDir, 'agents'))
    await untilHolds(() => expect(facts()).toMatchObject({ adopted: 10, waiting: 15 }))
    await untilHolds(() => expect(delivery.warnings().join()).not.toContain('memory'))
    expect([folder.path, folder.id]).toEqual([path, id])
    expect(await metrics()).toContain('vedette_spool_on_disk 1')
    await end(0)
    expect(facts()['lost']).toBe(0)
    platform.reply = recorded
    const again = await started(dataDir, platform)
    expect(again.facts()['adopted']).toBe(15)
    await untilHolds(() => expect(platform.has.size).toBe(15))
  })

  test('is left alone by an agent that ends before', async () => {
    const [platform, dataDir] = [await platformOf(), temporaryFolder()]
    writeFileSync(join(dataDir, 'agents'), 'in the way')
    const { folder, end } = await started(dataDir, platform, {}, { retryMs: 20 })
    const taken = vi.fn<() => void>()
    folder.onAvailable(taken)
    await end(0)
    rmSync(join(dataDir, 'agents'))
    mkdirSync(join(dataDir, 'agents'))
    await new Promise((resolve) => setTimeout(resolve, 100))
    expect(taken).not.toHaveBeenCalled()
    expect(readdirSync(join(dataDir, 'agents'))).toEqual([])
  })
})
