// The progress of a run: without secrets, the newest report alone, at most once a second, until its end.
import { tmpdir } from 'node:os'
import { afterEach, describe, expect, test, vi } from 'vitest'
import type * as z from 'zod'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import type { LinkRequest } from '../../../src/agent/platform/link.ts'
import { ProgressBoard, startProgressReporting } from '../../../src/agent/run/progress-board.ts'
import { createRunner } from '../../../src/agent/run/runner.ts'
import { SCRUBBED } from '../../../src/agent/redaction/scrub.ts'
import { PresenceRequest } from '../../../src/contract/protocol/agent-protocol.ts'
import { PROGRESS_BOUNDS } from '../../../src/contract/protocol/run-progress.ts'
import type { Dialler } from '../../../src/network/dial.ts'
import type { RunProgress } from '../../../src/scripts/host.ts'
import { aMonitor, fakeType } from '../../support/agent/fake-monitors.ts'

type Said = z.infer<typeof PresenceRequest>

const RUN = '44444444-4444-4444-8444-444444444444'
const AGENT = '22222222-2222-4222-8222-222222222222'
const NEVER = new AbortController().signal
const PLAIN = { text: (given: string) => given }
const runId = (index: number) => `44444444-4444-4444-8444-${String(index).padStart(12, '0')}`

/** A run that has started, and the board that it reports to. */
async function started(onDemand?: string, checkType: 'URL' | 'PLAYWRIGHT' = 'URL') {
  const board = new ProgressBoard()
  const fake = fakeType()
  const [type] = fake.types.values()
  const types = new Map(type && [[checkType, type]])
  const settings = { types, clock: createClock(), workRoot: tmpdir(), scrubHeaders: [] }
  const variables = [{ key: 'TOKEN', value: 'hush-hush', secret: true, locked: false }]
  const around = { location: 'office', variables, dial: {} as Dialler, secrets: [] }
  const job = { monitor: { ...aMonitor('a'), checkType }, slot: 1, ...(onDemand && { onDemand }) }
  const running = createRunner({ ...settings, progress: board }).run(job, around, NEVER)
  const run = await fake.next()
  const end = () => (run.end(), running)
  const report = (at: RunProgress) => run.context.progress?.(at)
  return { board, report, end }
}

describe('the newest report of a run', () => {
  test('is known while it runs, without secrets and control characters, cut to its bound', async () => {
    const { board, report, end } = await started(RUN)
    expect(board.newest()).toEqual([])
    report({ phase: 'install' })
    expect(board.newest()).toEqual([{ run: RUN, phase: 'install' }])
    const line = `sent hush-hush\u001B[31m to the shop ${'x'.repeat(1_000)}`
    report({ phase: 'test', done: 3, total: 10, line })
    const [reported] = board.newest()
    expect(reported).toMatchObject({ run: RUN, phase: 'test', done: 3, total: 10 })
    expect(reported?.line).toMatch(/^sent \[scrubbed\] \[31m to the shop x+$/)
    expect(reported?.line).toHaveLength(PROGRESS_BOUNDS.lineCharactersMax)
    await end()
    expect(board.newest()).toEqual([])
    // A run that ignores its abort continues to report.
    report({ phase: 'test' })
    expect(board.newest()).toEqual([])
  })

  test('never holds the part of a secret at which it is cut', async () => {
    const { board, report, end } = await started(RUN)
    report({ phase: 'p', line: `${'x'.repeat(495)}hush-hush` })
    expect(board.newest()[0]?.line).not.toContain('hush')
    report({ phase: 'p', line: `hush-hush${'x'.repeat(9_986)}hush-hush` })
    expect(JSON.stringify(board.newest())).not.toContain('hush')
    report({ phase: 'hush-hush' })
    expect(board.newest()[0]?.phase).toBe(SCRUBBED)
    await end()
  })

  test('of a plain slot is not reported', async () => {
    const { board, report, end } = await started()
    report({ phase: 'test' })
    expect(board.newest()).toEqual([])
    await end()
  })

  test('of a slot of user code is reported with each sync, from its start to its end', async () => {
    const { board, report, end } = await started(undefined, 'PLAYWRIGHT')
    const [begun] = board.slots()
    expect(begun).toEqual({ monitorId: 'a', slot: 1, startedAt: expect.any(Number) as number })
    report({ phase: 'test', done: 3, total: 10, line: 'sent hush-hush' })
    const now = { phase: 'test', done: 3, total: 10, line: `sent ${SCRUBBED}` }
    expect(board.slots()).toEqual([{ ...begun, ...now }])
    expect(board.newest()).toEqual([])
    await end()
    expect(board.slots()).toEqual([])
  })

  test('of slots above the bound is left out for the youngest, whether they report or not', () => {
    const board = new ProgressBoard()
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
    const board = new ProgressBoard()
    board.begin({ run: RUN }, PLAIN).report({ phase: 'p', done: given, total: given })
    expect(board.newest()).toEqual([{ run: RUN, phase: 'p', done: reported, total: reported }])
  })

  test('is limited to as many runs as one call accepts, latest first', () => {
    const board = new ProgressBoard()
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
    const board = new ProgressBoard()
    const place = board.begin({ run: RUN }, PLAIN)
    const calls: { ask: LinkRequest; end: (error?: Error) => void }[] = []
    const request = (ask: LinkRequest) => {
      const { promise, resolve, reject } = Promise.withResolvers<never>()
      calls.push({ ask, end: (error) => (error ? reject(error) : resolve(undefined as never)) })
      return promise
    }
    const link = { request }
    const end = startProgressReporting({ link, facts: () => ({ id: AGENT, instance: RUN }), board })
    const said = () => calls.map(({ ask }) => JSON.parse((ask.body as Buffer).toString()) as Said)
    return { board, place, calls, said, end }
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
