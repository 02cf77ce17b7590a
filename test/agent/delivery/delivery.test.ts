// Delivery over real HTTP and files: each result is delivered, waits, is refused or lost, and is counted once.
import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, renameSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { array, assert, asyncProperty, constantFrom, record, nat } from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  recorded,
  refusal,
  type ReceivedBatch,
  type Reply,
} from '../../support/agent/fake-platform.ts'
import { untilHolds } from '../../support/eventually.ts'
import {
  deliver,
  hurried,
  left,
  missing,
  MONITOR,
  platformOf,
  result,
  slotOf,
  started,
  startedFresh,
} from '../../support/agent/delivery/started-delivery.ts'
import { startStopwatch } from '../../support/stopwatch.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

describe('with a working platform', () => {
  test('a result is delivered at once, and nothing stays on disk', async () => {
    const { platform, delivery, folder, facts, end } = await startedFresh()
    await delivery.deliver(result(0))
    await untilHolds(() => expect(facts()['delivered']).toBe(1))
    expect(platform.batches[0]).toMatchObject({ agentId: folder.id, packed: false })
    expect(platform.batches[0]?.results[0]).toMatchObject({ monitorId: MONITOR, slot: slotOf(0) })
    await end()
    const spool = readdirSync(folder.path ?? '').find((name) => name.startsWith('spool.')) ?? ''
    expect(readdirSync(join(folder.path ?? '', spool))).toEqual([])
  })

  test('many go in few batches, packed, none with more than 1000', async () => {
    const { platform, delivery, facts } = await startedFresh()
    await deliver(delivery, 0, 3000)
    await untilHolds(() => expect(facts()['delivered']).toBe(3000))
    const sizes = platform.batches.map(({ results }) => results.length)
    expect(Math.max(...sizes)).toBeLessThanOrEqual(1000)
    expect(sizes.length).toBeLessThanOrEqual(8)
    expect(platform.batches.at(-1)?.packed).toBe(true)
    expect(facts()).toMatchObject({ produced: 3000, waiting: 0, refused: 0, lost: 0 })
  })

  test('an urgent result does not wait for a batch', async () => {
    const { platform, delivery } = await startedFresh()
    await delivery.deliver(result(0))
    await untilHolds(() => expect(platform.has.size).toBe(1))
    const ownMs = startStopwatch()
    const onDemand = randomUUID()
    await delivery.deliver(result(1, { onDemand }))
    await untilHolds(() => expect(platform.has.size).toBe(2))
    expect(ownMs()).toBeLessThan(900)
    expect(platform.batches.at(-1)?.results[0]?.onDemand).toBe(onDemand)
  })
})

const TOO_FEW = '{"recorded":1,"known":0,"refused":[]}'

describe('the table', () => {
  const answers: [string, Reply, string][] = [
    ['401', refusal(401), 'hold'],
    ['a 200 of a captive portal', { status: 200, body: '<html>welcome' }, 'retry'],
    ['a 200 that accounts for too few', { status: 200, body: TOO_FEW }, 'retry'],
    ['a cut connection', { cut: 'before' }, 'retry'],
  ]

  test.each(answers)('%s: nothing is lost, and it is delivered after', async (_, reply, action) => {
    let asked = 0
    const answer = (batch: ReceivedBatch) => (++asked <= 3 ? reply : recorded(batch))
    const { delivery, facts, lines } = await startedFresh(answer)
    await deliver(delivery, 0, 3)
    await untilHolds(() => expect(facts()['problem']).toMatchObject({ action }))
    expect(delivery.warnings()[0]).toContain('results cannot be delivered')
    expect(facts()).toMatchObject({ delivered: 0, waiting: 3 })
    hurried(delivery)
    await untilHolds(() => expect(facts()).toMatchObject({ delivered: 3, waiting: 0, lost: 0 }))
    expect(asked).toBe(4)
    expect(delivery.warnings()).toEqual([])
    expect(lines.filter((line) => line.includes('cannot be delivered'))).toHaveLength(1)
  })

  test('413: halves until the culprit is alone, which is given up', async () => {
    const { platform, delivery, facts, lines, metrics } = await startedFresh((batch) =>
      batch.results.some(({ slot }) => slot === slotOf(37)) ? refusal(413) : recorded(batch),
    )
    await deliver(delivery, 0, 100)
    await untilHolds(() => expect(facts()).toMatchObject({ delivered: 99, refused: 1, waiting: 0 }))
    expect(missing(platform, 100)).toEqual([37])
    expect([...platform.has.values()].every((times) => times === 1)).toBe(true)
    expect(platform.batches.length).toBeLessThan(20)
    const line = lines.find((one) => one.includes('is dropped')) ?? ''
    expect(JSON.parse(line)).toMatchObject({ status: '413', slot: slotOf(37) })
    expect(await metrics()).toContain('vedette_results_refused_total{code="HTTP_413"} 1')
  })

  test('a platform that refuses everything does not empty the spool', async () => {
    const { delivery, facts } = await startedFresh(() => refusal(400))
    await deliver(delivery, 0, 200)
    await untilHolds(() => expect(facts()['problem']).toMatchObject({ action: 'hold' }))
    expect(facts()).toMatchObject({ delivered: 0, refused: 10, waiting: 190 })
  })

  test('results that the platform refuses one by one are counted by code and not sent again', async () => {
    const platform = await platformOf()
    const unknown = { code: 'SLOT_UNKNOWN', message: 'no such slot' }
    platform.reply = (batch) => {
      const even = [...batch.results.entries()].filter(([, { slot }]) => slot % 2000 === 0)
      const refused = even.map(([index]) => ({ index, ...unknown }))
      return recorded(batch, refused)
    }
    const { delivery, facts, lines, metrics } = await started(temporaryFolder(), platform)
    await deliver(delivery, 0, 10)
    await untilHolds(() => expect(facts()).toMatchObject({ delivered: 5, refused: 5, waiting: 0 }))
    expect(platform.batches).toHaveLength(1)
    expect(await metrics()).toContain('vedette_results_refused_total{code="SLOT_UNKNOWN"} 5')
    expect(lines.filter((line) => line.includes('refused a result'))).toHaveLength(1)
  })
})

describe('while the platform is away', () => {
  test('fresh results overtake a backlog, which is delivered in its order', async () => {
    const [platform, dataDir] = [await platformOf(), temporaryFolder()]
    const count = 9000
    platform.reply = () => refusal(503)
    const away = await started(dataDir, platform)
    for (let from = 0; from < count; from += 1000) await deliver(away.delivery, from, 1000)
    expect(away.facts()).toMatchObject({ waiting: count, lost: 0 })
    await away.end(0)
    platform.batches.length = 0
    platform.reply = recorded
    const back = await started(dataDir, platform)
    expect(back.facts()['waiting']).toBe(count)
    await back.delivery.deliver(result(count))
    await untilHolds(() => expect(back.facts()).toMatchObject({ waiting: 0, lost: 0 }))
    const order = platform.batches.flatMap(({ results }) => results.map(({ slot }) => slot))
    expect(order.indexOf(slotOf(count))).toBeLessThan(count / 2)
    expect(order.filter((slot) => slot !== slotOf(count))).toEqual(
      Array.from({ length: count }, (_, at) => slotOf(at)),
    )
  })

  test('a stop leaves them on disk, soon, and the next start delivers them', async () => {
    const [platform, dataDir] = [await platformOf(), temporaryFolder()]
    platform.reply = () => refusal(503)
    const first = await started(dataDir, platform)
    await deliver(first.delivery, 0, 50)
    await first.end(600_000)
    platform.reply = recorded
    const second = await started(dataDir, platform)
    await untilHolds(() => expect(second.facts()['delivered']).toBe(50))
    expect(second.folder.id).toBe(first.folder.id)
    expect(missing(platform, 50)).toEqual([])
  })

  test('a stop delivers the rest when the platform answers', async () => {
    const { platform, delivery, end, facts } = await startedFresh()
    await delivery.deliver(result(0))
    await untilHolds(() => expect(facts()['delivered']).toBe(1))
    await deliver(delivery, 1, 50)
    await end()
    expect(missing(platform, 51)).toEqual([])
    expect(facts()).toMatchObject({ delivered: 51, waiting: 0 })
  })

  test('a stop does not wait for an answer that never comes', async () => {
    const never = new Promise(() => undefined)
    const { delivery, end, facts } = await startedFresh(() => ({ body: '', after: never }))
    await deliver(delivery, 0, 5)
    await end(50)
    expect(facts()).toMatchObject({ delivered: 0, waiting: 5, lost: 0 })
  })
})

describe('without a disk', () => {
  test('results are delivered from memory, and readiness warns', async () => {
    const platform = await platformOf()
    const { delivery, facts } = await started(undefined, platform)
    expect(delivery.warnings()[0]).toContain('in memory')
    await deliver(delivery, 0, 20)
    expect(facts()).toMatchObject({ delivered: 20, waiting: 0, keptOnDisk: false })
  })

  test('what does not fit is lost, counted, and reported to the caller that waits', async () => {
    const platform = await platformOf()
    platform.reply = () => refusal(503)
    const memoryBounds = { results: 500, bytes: 1024 * 1024, unsafeBytes: 64 * 1024 }
    const { delivery, facts, end } = await started(undefined, platform, { memoryBounds })
    const outcomes = Array.from({ length: 5000 }, (_, at) => delivery.deliver(result(at)))
    const settled = Promise.allSettled(outcomes)
    await untilHolds(() => expect(facts()['lost']).toBeGreaterThan(2000))
    await end(0)
    expect(facts()).toMatchObject({ produced: 5000, delivered: 0, lost: 5000, waiting: 0 })
    expect(new Set((await settled).map(({ status }) => status))).toEqual(new Set(['rejected']))
  })
})

describe('the results of other agents', () => {
  test('are delivered by one that is there, once', async () => {
    const [platform, dataDir] = [await platformOf(), temporaryFolder()]
    // Of a platform of its own: a request that is on its way when the agent ends is refused as well.
    renameSync(await left(dataDir, await platformOf()), join(dataDir, 'agents/2'))
    const [one, two] = [await started(dataDir, platform), await started(dataDir, platform)]
    expect(one.folder.path).toBe(join(dataDir, 'agents/1'))
    await untilHolds(() => expect(platform.has.size).toBe(10))
    expect([...platform.has.values()].every((times) => times === 1)).toBe(true)
    await untilHolds(() => expect(one.facts()['waiting']).toBe(0))
    expect(two.facts()['lost']).toBe(0)
  })

  test('under another key are named and stay for a week', async () => {
    const [platform, dataDir] = [await platformOf(), temporaryFolder()]
    const spools = ['0123456789ab', 'ba9876543210'].map((key) =>
      join(dataDir, `agents/1/spool.${key}`),
    )
    const weekAgo = Date.now() / 1000 - 8 * 86_400
    for (const [at, spool] of spools.entries()) {
      mkdirSync(spool, { recursive: true })
      const file = join(spool, '0000000000000001.seg')
      writeFileSync(file, 'encrypted')
      if (at === 1) utimesSync(file, weekAgo, weekAgo)
    }
    const { lines, metrics } = await started(dataDir, platform)
    await untilHolds(async () => expect(await metrics()).toContain('spool_foreign_bytes 9'))
    await untilHolds(() => expect(spools.map((one) => existsSync(one))).toEqual([true, false]))
    expect(lines.filter((line) => line.includes('API_KEY_PREVIOUS'))).toHaveLength(1)
  })
})

test('delivered + refused + lost + waiting = produced, whatever the platform answers', async () => {
  const kinds = ['ok', 'ok', 'ok', 500, 400, 401, 413, 429, 'cut', 'refuse', 'nonsense'] as const
  const some = array(constantFrom(...kinds), { maxLength: 6 })
  const step = record({ results: nat(30), answers: some })
  await assert(
    asyncProperty(array(step, { minLength: 1, maxLength: 5 }), async (steps) => {
      const platform = await platformOf()
      const answers: (typeof kinds)[number][] = []
      platform.reply = (batch) => replyOf(answers.shift() ?? 'ok', batch)
      const { delivery, facts, end } = await started(temporaryFolder(), platform)
      hurried(delivery)
      let produced = 0
      for (const { results, answers: next } of steps) {
        answers.push(...next)
        await deliver(delivery, produced, results)
        produced += results
      }
      await end(5000)
      const { delivered = 0, refused = 0, lost = 0, waiting = 0 } = facts()
      expect([delivered + refused + lost + waiting, lost]).toEqual([produced, 0])
      expect([...platform.has.values()].every((times) => times === 1)).toBe(true)
    }),
    { numRuns: 25 },
  )
})

function replyOf(kind: string | number, batch: ReceivedBatch): Reply {
  if (typeof kind === 'number') return refusal(kind)
  if (kind === 'cut') return { cut: 'before' }
  if (kind === 'nonsense') return { status: 502, body: 'nonsense' }
  const refused = { index: 0, code: 'TOO_OLD', message: 'too old' }
  return recorded(batch, kind === 'refuse' && batch.results.length > 0 ? [refused] : [])
}
