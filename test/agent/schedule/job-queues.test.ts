// Every slot ends in one way: with a result, missed or cancelled. The account holds after any course of events.
import { tmpdir } from 'node:os'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import { JobQueues, type Watch } from '../../../src/agent/schedule/job-queues.ts'
import { rowsOf, SKIPPED_ROWS_MAX } from '../../../src/agent/schedule/passed-slots.ts'
import { queueClassOf } from '../../../src/agent/run/run-plan.ts'
import { createRunner } from '../../../src/agent/run/runner.ts'
import { failure } from '../../../src/contract/failure.ts'
import type { Result } from '../../../src/contract/result.ts'
import type { Dialler } from '../../../src/network/dial.ts'
import { aMonitor, fakeType } from '../../support/agent/fake-monitors.ts'

function setUp(concurrency = { uptime: 1, scripted: 1 }) {
  const fake = fakeType()
  const clock = createClock()
  const results: Result[] = []
  const missed = new Map<string, number>()
  const arrivals: (() => void)[] = []
  const queues = new JobQueues({
    concurrency,
    runner: createRunner({ types: fake.types, clock, workRoot: tmpdir(), scrubHeaders: [] }),
    clock,
    metrics: {
      started: () => undefined,
      recorded: () => undefined,
      missed: (reason, count) => void missed.set(reason, (missed.get(reason) ?? 0) + count),
    },
    locationContext: () => ({
      location: 'office',
      variables: [],
      dial: {} as Dialler,
      secrets: [],
    }),
    onResult(result) {
      results.push(result)
      for (const arrived of arrivals.splice(0)) arrived()
    },
  })
  const resultCount = async (count: number) => {
    while (results.length < count) await new Promise<void>((resolve) => arrivals.push(resolve))
  }
  const ends = () => results.map((one) => `${one.monitorId} ${one.slot} ${endOf(one)}`)
  /** Starts the slot of a monitor; resolves with its run. */
  const started = (id: string, slot = 1) => {
    const watch = watchOf(id)
    queues.due(watch, slot, slot)
    return fake.next().then((run) => Object.assign(run, { watch }))
  }
  const accounted = (count: number) =>
    expect(queues.counts()).toEqual({ expected: count, recorded: count, handedOver: 0 })
  return { fake, queues, results, missed, ends, resultCount, accounted, started }
}

function endOf({ verdict, missedReason }: Result): string {
  return missedReason === undefined ? verdict : `${verdict}: ${missedReason}`
}

function watchOf(id: string, fields: Record<string, unknown> = {}): Watch {
  return { monitor: aMonitor(id, fields), waiting: undefined, running: undefined }
}

describe('a slot that comes due', () => {
  test('while the former run is still running is missed', async () => {
    const { queues, ends, resultCount, accounted, started } = setUp()
    const run = await started('a', 1000)
    queues.due(run.watch, 2000, 2000)
    queues.due(run.watch, 3000, 3000)
    run.end()
    await resultCount(3)
    const missed = [2000, 3000].map((slot) => `a ${slot} missed: still-running`)
    expect(ends()).toEqual([...missed, 'a 1000 passed'])
    accounted(3)
  })

  test('with hundreds of others begins a few turns later, so that they do not block the event loop', async () => {
    const { fake, queues, resultCount, accounted } = setUp({ uptime: 200, scripted: 1 })
    const counts: number[] = []
    for (let n = 0; n < 200; n++) queues.due(watchOf(`m${n}`), 1, 1)
    counts.push(queues.state().uptime.running)
    while ((counts.at(-1) ?? 0) < 200) {
      await new Promise((resolve) => setImmediate(resolve))
      counts.push(queues.state().uptime.running)
    }
    const inOneTurn = counts.map((count, turn) => count - (counts[turn - 1] ?? 0))
    expect(Math.max(...inOneTurn)).toBeLessThanOrEqual(50)
    for (let n = 0; n < 200; n++) await fake.endNext()
    await resultCount(200)
    accounted(200)
  })

  test('while the former one waits replaces it in the queue', async () => {
    const { fake, queues, ends, resultCount, accounted, started } = setUp()
    const first = await started('a')
    const b = watchOf('b')
    queues.due(b, 2, 2)
    queues.due(watchOf('c'), 3, 3)
    queues.due(b, 12, 12)
    expect(ends()).toEqual(['b 2 missed: overloaded'])
    first.end()
    await fake.endNext()
    await fake.endNext()
    await resultCount(4)
    expect(ends().slice(1)).toEqual(['a 1 passed', 'b 12 passed', 'c 3 passed'])
    accounted(4)
  })

  test('of a replaced definition runs the newest one', async () => {
    const { fake, queues, resultCount, started } = setUp()
    const first = await started('a')
    const b = watchOf('b')
    queues.due(b, 2, 2)
    b.monitor = aMonitor('b', { request: { url: 'http://new/' } })
    first.end()
    const second = await fake.next()
    expect(second.monitor.request).toEqual({ url: 'http://new/' })
    second.end()
    await resultCount(2)
  })
})

describe('queues', () => {
  test.each([
    ['URL', {}, 'uptime'],
    ['API', { localSetupScript: '', localTearDownScript: 'x()' }, 'scripted'],
    ['API', { localSetupScript: '', setupSnippetId: null }, 'uptime'],
    ['BROWSER', {}, 'scripted'],
    ['MULTI_STEP', {}, 'scripted'],
    ['PLAYWRIGHT', {}, 'scripted'],
  ])('%s with %j is %s work', (checkType, fields, queueClass) => {
    expect(queueClassOf(aMonitor('a', { checkType, ...fields }))).toBe(queueClass)
  })

  test('no more jobs run than allowed, and their state is reported', async () => {
    const { fake, queues, resultCount } = setUp({ uptime: 3, scripted: 1 })
    for (let n = 0; n < 10; n++) queues.due(watchOf(`m${n}`), n, n)
    const runs = [await fake.next(), await fake.next(), await fake.next()]
    expect(fake.begun()).toBe(3)
    expect(queues.state().uptime).toEqual({ waiting: 7, running: 3 })
    for (const run of runs) run.end()
    for (let n = 3; n < 10; n++) await fake.endNext()
    await resultCount(10)
    expect(queues.state().uptime).toEqual({ waiting: 0, running: 0 })
  })

  test('a job that waits for its next attempt leaves its place to others', async () => {
    const { fake, queues, ends, resultCount } = setUp()
    const retryStrategy = { type: 'FIXED', baseBackoffSeconds: 300, maxRetries: 1 }
    const a = watchOf('a', { retryStrategy })
    queues.due(a, 1, 1)
    queues.due(watchOf('b'), 2, 2)
    await fake.endNext({ failures: [failure('CONNECT_REFUSED', 'x')] })
    const second = await fake.next()
    expect(second.monitor.id).toBe('b')
    second.end()
    await resultCount(1)
    queues.due(a, 11, 11)
    await queues.drain(0)
    expect(ends()).toEqual(['b 2 passed', 'a 11 missed: still-running', 'a 1 cancelled'])
  })
})

describe('runs on demand', () => {
  test('go before all that waits, and are no slot', async () => {
    const { fake, queues, results, resultCount, accounted, started } = setUp()
    const first = await started('a')
    queues.due(watchOf('b'), 2, 2)
    const wanted = watchOf('c')
    queues.runNow(wanted, 'run-1')
    queues.runNow(wanted, 'run-1')
    first.end()
    const second = await fake.next()
    expect(second.monitor.id).toBe('c')
    second.end()
    await fake.endNext()
    await resultCount(3)
    expect(results.map(({ onDemand }) => onDemand)).toEqual([undefined, 'run-1', undefined])
    accounted(2)
  })

  test('can be cancelled while they wait and while they run', async () => {
    const { fake, queues, results, resultCount } = setUp()
    queues.runNow(watchOf('a'), 'running')
    const run = await fake.next()
    queues.runNow(watchOf('b'), 'waiting')
    queues.cancelRun('waiting', 'no longer wanted')
    queues.cancelRun('running', 'no longer wanted')
    queues.cancelRun('unknown', 'no longer wanted')
    await resultCount(2)
    expect(run.context.signal.aborted).toBe(true)
    const texts = results.map(({ onDemand, verdict }) => `${onDemand} ${verdict}`)
    expect(texts).toEqual(['waiting cancelled', 'running cancelled'])
    expect(fake.begun()).toBe(1)
  })
})

test('a dropped monitor: waiting slots are missed, the running job continues', async () => {
  const { queues, ends, resultCount, accounted, started } = setUp()
  const run = await started('a')
  const b = watchOf('b')
  queues.due(b, 2, 2)
  queues.dropped(run.watch)
  queues.dropped(b)
  run.end()
  await resultCount(2)
  expect(ends()).toEqual(['b 2 missed: removed', 'a 1 passed'])
  accounted(2)
})

test('slots that were slept through are all counted, and the newest of them shown', () => {
  const { queues, results, missed, accounted } = setUp()
  const slots = { everyMs: 1000, offsetMs: 250 }
  queues.skipped(watchOf('a'), rowsOf({ slots, from: 250, to: 100_250, reason: 'suspended' }))
  expect(results).toHaveLength(SKIPPED_ROWS_MAX)
  expect(results.at(-1)).toMatchObject({ slot: 99_250, missedReason: 'suspended' })
  expect(missed.get('suspended')).toBe(100)
  accounted(100)
})

describe('draining', () => {
  test('lets running jobs end, starts nothing, and accounts for what waits and what comes', async () => {
    const { fake, queues, ends, accounted, started } = setUp()
    const run = await started('a')
    const b = watchOf('b')
    queues.due(b, 2, 2)
    queues.runNow(watchOf('c'), 'run-1')
    const drained = queues.drain(60_000)
    queues.due(b, 12, 12)
    queues.runNow(watchOf('d'), 'run-2')
    run.end()
    await drained
    const [cancelled, others] = [true, false].map((is) =>
      ends().filter((end) => end.includes('cancelled') === is),
    )
    expect(others).toEqual(['b 2 missed: draining', 'b 12 missed: draining', 'a 1 passed'])
    expect(cancelled).toHaveLength(2)
    expect(fake.begun()).toBe(1)
    accounted(3)
  })

  test('cancels running jobs at the deadline, and waits until they have ended', async () => {
    const { queues, ends, started } = setUp()
    const run = await started('a')
    await queues.drain(20)
    expect(run.context.signal.aborted).toBe(true)
    expect(ends()).toEqual(['a 1 cancelled'])
  })
})

const EVERY_SECOND = { everyMs: 1000, offsetMs: 0 }

test('expected = recorded + waiting + running, after any course of events', async () => {
  const event = fc.tuple(fc.constantFrom('due', 'end', 'fail', 'drop', 'skip', 'demand'), fc.nat(3))
  await fc.assert(
    fc.asyncProperty(fc.array(event, { maxLength: 60 }), async (events) => {
      const { fake, queues, results } = setUp({ uptime: 2, scripted: 1 })
      const watches = [0, 1, 2, 3].map((n) => watchOf(`m${n}`))
      let slot = 0
      let demanded = 0
      for (const [what, which] of events) {
        const watch = watches[which] as Watch
        slot += 1000
        if (what === 'due') queues.due(watch, slot, slot)
        if (what === 'end') fake.runs.shift()?.end()
        if (what === 'fail') fake.runs.shift()?.fail(new Error('odd'))
        if (what === 'drop') queues.dropped(watch)
        if (what === 'demand') queues.runNow(watch, `run-${demanded++}`)
        const span = { slots: EVERY_SECOND, from: slot - 500, to: slot + 500 }
        if (what === 'skip') queues.skipped(watch, rowsOf({ ...span, reason: 'suspended' }))
        await new Promise((resolve) => setImmediate(resolve))
        const { expected, recorded } = queues.counts()
        const open = watches.filter((one) => one.waiting !== undefined).length
        const busy = watches.filter((one) => one.running !== undefined).length
        expect(expected).toBe(recorded + open + busy)
      }
      await queues.drain(0)
      const { expected, recorded } = queues.counts()
      expect(recorded).toBe(expected)
      expect(results).toHaveLength(expected + demanded)
      const slots = results
        .filter(({ onDemand }) => onDemand === undefined)
        .map((one) => `${one.monitorId} ${one.slot}`)
      expect(new Set(slots).size).toBe(slots.length)
    }),
    { numRuns: 50 },
  )
})

describe('handing over', () => {
  /** One run under way, one slot that waits behind it. */
  async function leaving(takeOver: Promise<boolean>) {
    const { queues, ends, started } = setUp()
    const running = await started('a', 1000)
    queues.due(watchOf('b'), 1500, 1500)
    expect(queues.notStarted()).toEqual([{ monitorId: 'b', slot: 1500 }])
    const idle = queues.drain(60_000, { leftAt: 2000, takeOver })
    const late = watchOf('c')
    queues.due(late, 1900, 1900)
    queues.due(late, 2500, 2500)
    await takeOver
    running.end()
    await idle
    queues.due(late, 3500, 3500)
    return { ends: ends(), counts: queues.counts() }
  }

  test('records no row for slots that others take over, before and after it is clear', async () => {
    const { ends, counts } = await leaving(Promise.resolve(true))
    expect(ends).toEqual(['a 1000 passed'])
    expect(counts).toEqual({ expected: 3, recorded: 1, handedOver: 2 })
  })

  test('records a row for every slot where nobody takes over', async () => {
    const { ends, counts } = await leaving(Promise.resolve(false))
    const missed = ['b 1500', 'c 1900', 'c 2500', 'c 3500'].map((one) => `${one} missed: draining`)
    expect(ends.toSorted()).toEqual(['a 1000 passed', ...missed])
    expect(counts).toEqual({ expected: 5, recorded: 5, handedOver: 0 })
  })
})
