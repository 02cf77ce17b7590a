// The platform as a source: good answers apply; bad ones are ignored as a whole, logged and counted.
import type { ServerResponse } from 'node:http'
import { Registry } from 'prom-client'
import { describe, expect, onTestFinished, test } from 'vitest'
import { PlatformSource } from '../../../src/agent/platform/client.ts'
import { PlatformLink } from '../../../src/agent/platform/link.ts'
import type { FileStore } from '../../../src/agent/platform/sync/stored-monitors.ts'
import { ProgressBoard } from '../../../src/agent/run/progress-board.ts'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import type { AgentReport, Change, Snapshot } from '../../../src/agent/source.ts'
import type { NetworkProblem } from '../../../src/contract/failure.ts'
import { aMonitor } from '../../support/agent/fake-monitors.ts'
import {
  FAKE_KEY,
  json,
  NOTHING,
  startFakePlatform,
  type FakePlatform,
} from '../../support/agent/fake-platform.ts'
import { collectingLog } from '../../support/collecting-log.ts'
import { startStopwatch } from '../../support/stopwatch.ts'

const A = '22222222-2222-4222-8222-222222222222'
const B = '33333333-3333-4333-8333-333333333333'
const RUN = '44444444-4444-4444-8444-444444444444'
const FACTS = { version: '8.4.0', image: 'agent-uptime' }
const slots = { everyMs: 10_000, offsetMs: 0 }
/** A monitor as the platform sends it. */
const given = (id: string, fields: Record<string, unknown> = {}) => ({
  monitor: aMonitor(id, fields),
  slots,
  from: 1000,
})
/** The answer that has exactly these monitors. */
const whole = (...set: unknown[]) => ({ whole: true, set, drop: [], variables: [] }) as never

const NO_FOLDER: FileStore = {
  path: undefined,
  store: () => Promise.resolve(),
  read: () => Promise.resolve(undefined),
}

/** A fake platform and the source that follows it, until the test ends. */
async function followPlatform(prepare?: (at: FakePlatform) => void, folder = NO_FOLDER) {
  const at = await startFakePlatform()
  prepare?.(at)
  const link = new PlatformLink({ platformUrl: at.url, apiKey: FAKE_KEY })
  const clock = createClock()
  const { log, lines } = collectingLog()
  let id = A
  const source = new PlatformSource({
    link,
    clock,
    random: () => 0,
    folder,
    facts: () => ({ id, instance: B, ...FACTS, checkTypes: ['URL'], engines: [], runtimes: [] }),
    renewId() {
      id = RUN
      return Promise.resolve()
    },
    log,
  })
  const stop = new AbortController()
  const runs: { run: string; state: 'waiting' | 'running' }[] = []
  const network: { problem: NetworkProblem | undefined } = { problem: undefined }
  let runsChanged: () => void = () => undefined
  const progress = new ProgressBoard()
  const queue = { waiting: 0, running: 0, free: 1 }
  const report: AgentReport = {
    queues: () => ({ uptime: queue, scripted: queue }),
    runs: () => [...runs],
    network: () => network.problem,
    onRunsChanged: (changed) => (runsChanged = changed),
    progress,
  }
  const changes = source.follow(stop.signal, report)[Symbol.asyncIterator]()
  const next = async (): Promise<Change> => (await changes.next()).value as Change
  const monitors = async (): Promise<Snapshot> => {
    for (;;) {
      const change = await next()
      if (change.kind === 'monitors') return change.snapshot
    }
  }
  onTestFinished(async () => {
    stop.abort()
    await changes.return?.()
    link.close()
    await at.close()
  })
  const signalRuns = () => runsChanged()
  const followed = { at, changes, clock, source, lines, runs, network, progress, stop }
  return { ...followed, signalRuns, next, monitors }
}

const withA = (at: FakePlatform) => at.say({ revision: '1', changes: whole(given(A)) })
const withPeer = (at: FakePlatform) => at.say({ peers: 1 })

describe('monitors', () => {
  test('come as a whole and then as changes; a dropped one ends at its instant', async () => {
    const { at, monitors } = await followPlatform((one) =>
      one.say({ revision: '1', changes: whole(given(A), given(B)) }),
    )
    const first = await monitors()
    expect(first.location).toBe('office')
    expect(first.monitors.map(({ id }) => id)).toEqual([A, B])
    expect(first.assignments?.get(A)).toMatchObject({ slots, from: 1000 })
    const until = Date.now() + 60_000
    const drop = [{ monitorId: B, until }]
    const second = monitors()
    await at.sync(({ have }) => have === '1')
    at.say({ revision: '2', changes: { whole: false, set: [], drop, variables: [] } })
    const changed = await second
    expect(changed.assignments?.get(B)?.until).toBe(until)
    expect(changed.assignments?.get(A)?.until).toBeUndefined()
    expect(changed.monitors[0]).toBe(first.monitors[0])
  })

  test('that this agent cannot read still run, to report the problem', async () => {
    const odd = { ...given(A), monitor: { ...aMonitor(A), checkType: 'TELEPATHY', frequency: 7 } }
    const { monitors } = await followPlatform((one) =>
      one.say({ revision: '1', changes: whole(odd, given(B)) }),
    )
    const { monitors: all } = await monitors()
    expect(all.map(({ checkType }) => checkType)).toEqual(['TELEPATHY', 'URL'])
  })
})

describe('bad answers', () => {
  const answers = (how: (response: ServerResponse) => void) => (at: FakePlatform) =>
    at.misbehave((_, response) => (how(response), true))
  test.each<[string, string, (at: FakePlatform) => void]>([
    ['a failing platform', 'HTTP_500', answers((to) => json(to, { message: 'no' }, 500))],
    ['a page of something in between', 'MALFORMED', answers((to) => to.end('<html>'))],
    ['an answer that lacks fields', 'MALFORMED', answers((to) => json(to, { revision: '9' }))],
    [
      'an entry that is none',
      'MALFORMED',
      (at) => at.say({ revision: '9', changes: whole(given(A), { monitor: {}, slots }) }),
    ],
    ['a redirect', 'REDIRECTED', answers((to) => to.writeHead(302, { location: '/' }).end())],
    ['an unknown key', 'HTTP_401', answers((to) => json(to, { message: 'No' }, 401))],
  ])('%s is logged and counted, and the present monitors continue', async (_, code, spoil) => {
    const { at, source, monitors, next } = await followPlatform(withA)
    const registry = new Registry()
    source.registerMetrics?.(registry)
    await monitors()
    const news = next()
    await at.sync(({ have }) => have === '1')
    spoil(at)
    at.say({})
    const counted = `vedette_sync_failures_total{code="${code}"}`
    while (!(await registry.metrics()).includes(counted)) {
      await new Promise((resolve) => setImmediate(resolve))
    }
    const { unready, warnings } = source.state?.() ?? { unready: '', warnings: [] }
    // An operator has to act.
    const isRefusal = code === 'REDIRECTED' || code === 'HTTP_401'
    expect([unready !== undefined, warnings.length]).toEqual([isRefusal, isRefusal ? 0 : 1])
    if (isRefusal) return
    at.misbehave(undefined)
    at.say({ revision: '10', changes: whole(given(B)) })
    expect(await news).toMatchObject({ kind: 'monitors' })
  })

  test('Retry-After is obeyed', async () => {
    const { at, monitors, lines } = await followPlatform((one) =>
      one.misbehave((_, response) => {
        response.writeHead(429, { 'retry-after': '1' }).end()
        return true
      }),
    )
    const coming = monitors()
    await at.sync(() => true)
    const askedAt = performance.now()
    at.misbehave(undefined)
    await coming
    expect(performance.now() - askedAt).toBeGreaterThan(900)
    expect(lines.filter((line) => line.includes('HTTP_429'))).toHaveLength(1)
  })

  test('another agent with the same id makes this one change its id', async () => {
    const { at, monitors } = await followPlatform((one) =>
      one.misbehave((_, response, said) => {
        if (said?.agent.id !== A) return false
        json(response, { message: 'Another instance runs' }, 409)
        return true
      }),
    )
    await monitors()
    expect(at.syncs.map(({ agent }) => agent.id)).toEqual([A, RUN])
  })
})

test('a problem of the agent’s own network is reported at once, and no more when it is over', async () => {
  const { at, monitors, next, network, signalRuns } = await followPlatform(withA)
  await monitors()
  const going = next()
  await at.sync(({ have, networkProblem }) => have === '1' && networkProblem === undefined)
  network.problem = 'RESOLVER_UNREACHABLE'
  signalRuns()
  const reported = await at.sync(({ networkProblem }) => networkProblem !== undefined)
  expect(reported.networkProblem).toBe('RESOLVER_UNREACHABLE')
  network.problem = undefined
  at.say({ revision: '2', changes: whole(given(B)) })
  await going
  void next()
  await at.sync(({ have, networkProblem }) => have === '2' && networkProblem === undefined)
})

test('runs on demand start, and their progress is reported at once; cancels come within a second', async () => {
  const { at, monitors, next, runs, signalRuns } = await followPlatform()
  await monitors()
  const asked = next()
  await at.sync(({ waitMs }) => waitMs > 0)
  at.say({ runs: [{ run: RUN, monitor: aMonitor(B) }] })
  expect(await asked).toMatchObject({ kind: 'run', run: RUN, monitorId: B, monitor: { id: B } })
  const cancelled = next()
  runs.push({ run: RUN, state: 'running' })
  signalRuns()
  await at.sync((said) => said.runs.some(({ run }) => run === RUN))
  const ownMs = startStopwatch()
  at.say({ runs: [], cancel: [RUN] })
  expect(await cancelled).toEqual({ kind: 'cancel', run: RUN })
  expect(ownMs()).toBeLessThan(1000)
})

test('how far runs are is reported during a waiting sync', async () => {
  const { at, monitors, next, progress } = await followPlatform()
  await monitors()
  void next()
  await at.sync(({ waitMs }) => waitMs > 0)
  const syncs = at.syncs.length
  const place = progress.begin({ run: RUN }, { text: (one) => one })
  place.report({ phase: 'test', done: 3, total: 10, line: 'shop.spec.ts' })
  const said = await at.presence(() => true)
  expect(said).toEqual({
    agentId: A,
    instance: B,
    progress: [{ run: RUN, phase: 'test', done: 3, total: 10, line: 'shop.spec.ts' }],
  })
  expect(at.syncs).toHaveLength(syncs)
})

/** Answers the first sync with the times of a call that took 8 s to reach the platform. */
const slowFirst = (at: FakePlatform) =>
  at.misbehave((_, response, said) => {
    if (said === undefined) return false
    at.misbehave(undefined)
    const sentAt = Date.now() + at.aheadMs
    json(response, { ...NOTHING, receivedAt: sentAt + 8000, sentAt })
    return true
  })

test.each([0, 60_000, -60_000])(
  'a slow first answer of a platform %i ms ahead',
  async (aheadMs) => {
    const { at, clock, monitors, next, lines } = await followPlatform((one) =>
      slowFirst(Object.assign(one, { aheadMs })),
    )
    await monitors()
    const isRight = () => Math.abs(clock.now() - Date.now() - aheadMs) < 500
    expect(isRight()).toBe(aheadMs === 0)
    expect(clock.uncertaintyMs() === undefined).toBe(aheadMs === 0)
    void next()
    await at.sync(({ have, waitMs }) => have !== null && waitMs === 0)
    // The one after it is held: the clock is known.
    await at.sync(({ waitMs }) => waitMs > 0)
    // The platform's clock and that of this machine are read in whole milliseconds.
    const boundMs = (clock.uncertaintyMs() ?? 0) + 2
    expect(boundMs).toBeLessThan(500)
    // Any time may pass between two readings.
    const before = Date.now()
    const shown = clock.now() - aheadMs
    expect(shown).toBeGreaterThanOrEqual(before - boundMs)
    expect(shown).toBeLessThanOrEqual(Date.now() + boundMs)
    expect(clock.observe()).toBeUndefined()
    expect(lines.filter((line) => line.includes('clock is wrong'))).toHaveLength(
      aheadMs === 0 ? 0 : 1,
    )
  },
)

describe('monitors on disk while the platform is away', () => {
  /** A folder in memory; `changeByMs` moves the time of storage, by default to another boot. */
  async function keptFolder(changeByMs: number, more: object = { bootId: '' }): Promise<FileStore> {
    const written = Promise.withResolvers<string>()
    const path = '/nowhere'
    const folder: FileStore = {
      path,
      async store(_, pieces) {
        let text = ''
        for await (const piece of pieces) text += String(piece)
        written.resolve(text)
      },
      read: () => Promise.resolve(undefined),
    }
    const before = await followPlatform((one) => one.say({ changes: whole(given(A)) }), folder)
    await before.monitors()
    before.stop.abort()
    await before.changes.return?.()
    const kept = JSON.parse(await written.promise) as { keptAt: number }
    kept.keptAt += changeByMs
    const text = JSON.stringify({ ...kept, ...more })
    return { path, store: () => Promise.resolve(), read: () => Promise.resolve(Buffer.from(text)) }
  }
  const away = (at: FakePlatform) => at.misbehave((request) => (request.socket.destroy(), true))

  test.each<[string, number, object | undefined]>([
    ['at once', 0, {}],
    ['a day after they were stored, in another boot', -86_400_000, undefined],
    ['a day after they were stored, by an earlier version', -86_400_000, { bootId: undefined }],
  ])('run %s', async (_, changeByMs, more) => {
    const { monitors } = await followPlatform(away, await keptFolder(changeByMs, more))
    expect((await monitors()).monitors).toHaveLength(1)
  })

  test.each([
    ['is behind', 3_600_000, undefined],
    ['was set', -86_400_000, {}],
  ])('wait for the platform where the clock %s, and readiness says so', async (what, by, more) => {
    const { at, source, monitors, lines } = await followPlatform(away, await keptFolder(by, more))
    const coming = monitors()
    await at.sync((said) => at.syncs.indexOf(said) === 2)
    expect(lines.filter((line) => line.includes(`clock ${what}`))).toHaveLength(1)
    expect(source.state?.().unready).toContain(`clock ${what}`)
    at.say({ revision: '2', changes: whole(given(B)) })
    at.misbehave(undefined)
    expect((await coming).monitors.map(({ id }) => id)).toEqual([B])
    expect(source.state?.().unready).toBeUndefined()
  })
})

describe('leaving', () => {
  test('is reported at once, with the slots that were not started, and the answer names successors', async () => {
    const { at, source, monitors, next } = await followPlatform(withPeer)
    await monitors()
    void next()
    await at.sync(({ waitMs }) => waitMs > 0)
    const notStarted = [{ monitorId: A, slot: 5000 }]
    const isTaken = source.leave?.({ leftAt: 6000, notStarted })
    expect(await isTaken).toBe(true)
    expect(at.syncs.at(-1)).toMatchObject({ state: 'leaving', leftAt: 6000, notStarted })
    await at.sync((said) => said.state === 'leaving' && said.notStarted === undefined)
  })

  test('has no successors where the platform does not answer', async () => {
    const { at, source, monitors, next } = await followPlatform(withPeer)
    await monitors()
    void next()
    at.misbehave((_, __, said) => said?.state === 'leaving')
    expect(await source.leave?.({ leftAt: 6000, notStarted: [] })).toBe(false)
  })
})
