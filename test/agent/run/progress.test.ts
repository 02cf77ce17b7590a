// Aim: the progress of a run reaches the platform without secrets, the newest report alone, at most
// once a second, and stops with the run.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import type * as z from 'zod'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import type { LinkRequest } from '../../../src/agent/platform/link.ts'
import {
  createProgressBoard,
  startProgressReporting,
} from '../../../src/agent/run/progress-board.ts'
import { createRunner } from '../../../src/agent/run/runner.ts'
import { SCRUBBED } from '../../../src/agent/redaction/scrub.ts'
import { PresenceRequest } from '../../../src/contract/protocol/agent-protocol.ts'
import { PROGRESS_BOUNDS } from '../../../src/contract/protocol/run-progress.ts'
import type { Dialler } from '../../../src/network/dial.ts'
import { aMonitor, fakeType } from '../../support/agent/fake-monitors.ts'

type Said = z.infer<typeof PresenceRequest>

const RUN = '44444444-4444-4444-8444-444444444444'
const AGENT = '22222222-2222-4222-8222-222222222222'
const NEVER = new AbortController().signal
const PLAIN = { text: (given: string) => given }
const runId = (index: number) => `44444444-4444-4444-8444-${String(index).padStart(12, '0')}`

let workRoot = ''
beforeAll(async () => {
  workRoot = await mkdtemp(join(tmpdir(), 'vedette-progress-'))
})
afterAll(() => rm(workRoot, { recursive: true }))

function runnerWith(board = createProgressBoard()) {
  const fake = fakeType()
  const types = new Map([
    ...fake.types,
    ...[...fake.types.values()].map((one) => ['PLAYWRIGHT', one] as const),
  ])
  const settings = { types, clock: createClock(), workRoot, scrubHeaders: [] }
  const variables = [{ key: 'TOKEN', value: 'hush-hush', secret: true, locked: false }]
  const around = { location: 'office', variables, dial: {} as Dialler, secrets: [] }
  const runner = createRunner({ ...settings, progress: board })
  return {
    board,
    fake,
    run: (onDemand?: string, monitor = aMonitor('a')) =>
      runner.run({ monitor, slot: 1, ...(onDemand && { onDemand }) }, around, NEVER),
  }
}

describe('the newest report of a run', () => {
  test('is known while it runs, without secrets and control characters, cut to its bound', async () => {
    const { board, fake, run } = runnerWith()
    const running = run(RUN)
    const started = await fake.next()
    expect(board.newest()).toEqual([])
    started.context.progress?.({ phase: 'install' })
    expect(board.newest()).toEqual([{ run: RUN, phase: 'install' }])
    const line = `sent hush-hush\u001B[31m to the shop ${'x'.repeat(1_000)}`
    started.context.progress?.({ phase: 'test', done: 3, total: 10, line })
    const [reported] = board.newest()
    expect(reported).toMatchObject({ run: RUN, phase: 'test', done: 3, total: 10 })
    expect(reported?.line).toMatch(/^sent \[scrubbed\] \[31m to the shop x+$/)
    expect(reported?.line).toHaveLength(PROGRESS_BOUNDS.lineCharactersMax)
    started.end()
    await running
    expect(board.newest()).toEqual([])
    // A run that ignores its abort continues to report.
    started.context.progress?.({ phase: 'test' })
    expect(board.newest()).toEqual([])
  })

  test('never holds the part of a secret at which it is cut', async () => {
    const { board, fake, run } = runnerWith()
    const running = run(RUN)
    const started = await fake.next()
    started.context.progress?.({ phase: 'p', line: `${'x'.repeat(495)}hush-hush` })
    expect(board.newest()[0]?.line).not.toContain('hush')
    started.context.progress?.({ phase: 'p', line: `hush-hush${'x'.repeat(9_986)}hush-hush` })
    expect(JSON.stringify(board.newest())).not.toContain('hush')
    started.context.progress?.({ phase: 'hush-hush' })
    expect(board.newest()[0]?.phase).toBe(SCRUBBED)
    started.end()
    await running
  })

  test('of a plain slot is not reported', async () => {
    const { board, fake, run } = runnerWith()
    const running = run()
    const started = await fake.next()
    started.context.progress?.({ phase: 'test' })
    expect(board.newest()).toEqual([])
    started.end()
    await running
  })

  test('of a slot of user code is reported with each sync, from its start to its end', async () => {
    const { board, fake, run } = runnerWith()
    const monitor = { ...aMonitor('a'), checkType: 'PLAYWRIGHT' as const }
    const running = run(undefined, monitor)
    const started = await fake.next()
    const [begun] = board.slots()
    expect(begun).toEqual({ monitorId: 'a', slot: 1, startedAt: expect.any(Number) as number })
    started.context.progress?.({ phase: 'test', done: 3, total: 10, line: 'sent hush-hush' })
    const now = { phase: 'test', done: 3, total: 10, line: `sent ${SCRUBBED}` }
    expect(board.slots()).toEqual([{ ...begun, ...now }])
    expect(board.newest()).toEqual([])
    started.end()
    await running
    expect(board.slots()).toEqual([])
  })

  test('of slots above the bound is left out for the youngest, whether they report or not', () => {
    const board = createProgressBoard()
    const { slotsMax } = PROGRESS_BOUNDS
    const places = Array.from({ length: slotsMax + 1 }, (_, slot) =>
      board.begin({ monitorId: 'a', slot, startedAt: slot }, PLAIN),
    )
    for (const place of [places[0], places.at(-1)]) place?.report({ phase: 'test' })
    const slots = board.slots()
    expect(slots.map(({ slot }) => slot)).toEqual([...Array(slotsMax).keys()])
    expect(slots[0]).toMatchObject({ phase: 'test' })
  })

  test.each([
    [-1, 0],
    [Number.NaN, 0],
    [2.4, 2],
    [1e300, PROGRESS_BOUNDS.countMax],
  ])('counts %d as %d', (given, reported) => {
    const board = createProgressBoard()
    board.begin({ run: RUN }, PLAIN).report({ phase: 'p', done: given, total: given })
    expect(board.newest()).toEqual([{ run: RUN, phase: 'p', done: reported, total: reported }])
  })

  test('is limited to as many runs as one call accepts, latest first', () => {
    const board = createProgressBoard()
    const lineMax = '\u2028'.repeat(PROGRESS_BOUNDS.lineCharactersMax)
    for (let index = 0; index < 100; index++) {
      board.begin({ run: runId(index) }, PLAIN).report({ phase: '"'.repeat(40), line: lineMax })
    }
    const all = board.newest()
    expect(all.map(({ run }) => run).slice(0, 2)).toEqual([runId(99), runId(98)])
    const call = { agentId: AGENT, instance: AGENT, progress: all }
    expect(PresenceRequest.safeParse(call).success).toBe(true)
    const bytes = Buffer.byteLength(JSON.stringify(call))
    expect(bytes).toBeLessThan(PROGRESS_BOUNDS.callBytesMax)
  })
})

describe('reporting', () => {
  afterEach(() => void vi.useRealTimers())

  const setUp = () => {
    vi.useFakeTimers()
    const board = createProgressBoard()
    const place = board.begin({ run: RUN }, PLAIN)
    const calls: { ask: LinkRequest; end: (error?: Error) => void }[] = []
    const link = {
      request: (ask: LinkRequest) =>
        new Promise<never>((resolve, reject) => {
          const end = (error?: Error) =>
            error === undefined ? resolve(undefined as never) : reject(error)
          calls.push({ ask, end })
        }),
    }
    const end = startProgressReporting({ link, facts: () => ({ id: AGENT, instance: RUN }), board })
    return {
      board,
      place,
      calls,
      said: () => calls.map(({ ask }) => JSON.parse((ask.body as Buffer).toString()) as Said),
      end,
    }
  }

  test('is one call for many reports, one at a time, a second apart, and survives a failure', async () => {
    const { place, calls, said, end } = setUp()
    for (let done = 0; done < 100; done++) place.report({ phase: 'test', done })
    await vi.advanceTimersByTimeAsync(100)
    expect(said()).toEqual([
      { agentId: AGENT, instance: RUN, progress: [{ run: RUN, phase: 'test', done: 99 }] },
    ])
    expect(calls[0]?.ask).toMatchObject({ method: 'POST', path: '/agent/v1/presence' })
    place.report({ phase: 'test', done: 100 })
    await vi.advanceTimersByTimeAsync(5_000)
    expect(calls).toHaveLength(1)
    calls[0]?.end(new Error('the platform is away'))
    await vi.advanceTimersByTimeAsync(100)
    expect(said()[1]?.progress).toEqual([{ run: RUN, phase: 'test', done: 100 }])
    calls[1]?.end()
    place.report({ phase: 'test', done: 101 })
    await vi.advanceTimersByTimeAsync(800)
    expect(calls).toHaveLength(2)
    await vi.advanceTimersByTimeAsync(200)
    expect(calls).toHaveLength(3)
    end()
  })

  test('is not about runs that are over, and ends with its source', async () => {
    const { board, place, calls, end } = setUp()
    place.report({ phase: 'test' })
    place.over()
    await vi.advanceTimersByTimeAsync(2_000)
    expect(calls).toHaveLength(0)
    const other = board.begin({ run: RUN }, PLAIN)
    other.report({ phase: 'test' })
    end()
    other.report({ phase: 'test' })
    await vi.advanceTimersByTimeAsync(2_000)
    expect(calls).toHaveLength(0)
    expect(vi.getTimerCount()).toBe(0)
  })
})
