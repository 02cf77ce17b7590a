// Attempts while our event loop really is late: what our delay alone has made is repeated, or a fault of ours.
import { tmpdir } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import type { LocationContext } from '../../../src/agent/run/run-plan.ts'
import { SCRUBBED } from '../../../src/agent/redaction/scrub.ts'
import { createRunner } from '../../../src/agent/run/runner.ts'
import { failure } from '../../../src/contract/failure.ts'
import type { Dialler } from '../../../src/network/dial.ts'
import { DeadlineReached } from '../../../src/network/deadline.ts'
import type { AnyMonitorType } from '../../../src/monitors/monitor.ts'
import type { Observation } from '../../../src/contract/observation.ts'
import { aMonitor, fakeType, type FakeType } from '../../support/agent/fake-monitors.ts'

const BLOCKED_MS = 200
const around: LocationContext = { location: 'x', variables: [], dial: {} as Dialler, secrets: [] }
const stopping = new AbortController()
afterEach(() => void vi.restoreAllMocks())

/** Nothing else runs in this thread for so long. */
function block(ms = BLOCKED_MS): void {
  const untilMs = performance.now() + ms
  while (performance.now() < untilMs);
}

const tooSlow = (responseTimeMs: number) =>
  failure('RESPONSE_TIME_ABOVE_MAX', 'slow', { responseTimeMs, maxMs: 1000 })
const slow = (ms: number) => ({ failures: [tooSlow(ms)], responseTimeMs: ms })
const SLOW_BY_US = slow(1000 + BLOCKED_MS / 2)
const refused = { failures: [failure('CONNECT_REFUSED', 'refused')] }

function begin(
  fake: FakeType,
  fields: Record<string, unknown> = {},
  types: ReadonlyMap<string, AnyMonitorType> = fake.types,
) {
  const onRetry = vi.fn<(type: string) => void>()
  const settings = { types, clock: createClock(), workRoot: tmpdir(), scrubHeaders: [], onRetry }
  const job = { monitor: aMonitor('a', fields), slot: 1 }
  const result = createRunner(settings).run(job, around, stopping.signal)
  return { result, onRetry }
}

/** The next run ends late, by our delay. */
async function endLate(fake: FakeType, observation: Partial<Observation>): Promise<void> {
  const run = await fake.next()
  block()
  run.end(observation)
}

describe('a verdict that only our delay has made', () => {
  test.each<[string, Partial<Observation>]>([
    ['failed', SLOW_BY_US],
    ['degraded', { degraded: true, responseTimeMs: 500 + BLOCKED_MS / 2 }],
  ])('%s: the attempt is repeated at once, and is no retry', async (_, observation) => {
    const fake = fakeType()
    const { result, onRetry } = begin(fake, { degradedResponseTime: 500 })
    await endLate(fake, observation)
    await fake.endNext()
    expect(await result).toMatchObject({ verdict: 'passed', attempts: [{ verdict: 'passed' }] })
    expect(fake.begun()).toBe(2)
    expect(onRetry).not.toHaveBeenCalled()
  })

  test('leaves the values that were observed before it was repeated secret', async () => {
    const fake = fakeType()
    const { result } = begin(fake)
    const headers = { 'set-cookie': ['sid=first-Zq7Rk2'] }
    const undisclosed = { received: [{ header: 'x-auth-token', value: 'also-Zq7Rk2' }] }
    await endLate(fake, { ...SLOW_BY_US, observed: { headers }, undisclosed })
    await fake.endNext({ observed: { body: 'first-Zq7Rk2, also-Zq7Rk2' } })
    expect((await result).observed).toEqual({ body: `${SCRUBBED}, ${SCRUBBED}` })
  })

  test('twice is errored, with the delay', async () => {
    const fake = fakeType()
    const { result } = begin(fake)
    await endLate(fake, SLOW_BY_US)
    await endLate(fake, SLOW_BY_US)
    const { failures, ...others } = await result
    expect(others).toMatchObject({ verdict: 'errored', attempts: [{ verdict: 'errored' }] })
    expect(others).not.toHaveProperty('responseTimeMs')
    expect(failures).toMatchObject([
      { code: 'AGENT_OVERLOADED', details: { instead: ['RESPONSE_TIME_ABOVE_MAX'] } },
    ])
    const delayMs = Number(failures[0]?.details?.['delayMs'])
    expect(delayMs).toBeGreaterThanOrEqual(BLOCKED_MS - 20)
    expect(failures[0]?.message).toContain(`${delayMs} ms`)
    expect(fake.begun()).toBe(2)
  })

  test('is tried again by the retry strategy when it was so twice', async () => {
    const fake = fakeType()
    const retryStrategy = { type: 'FIXED', baseBackoffSeconds: 0, maxRetries: 1 }
    const { result, onRetry } = begin(fake, { retryStrategy })
    await endLate(fake, SLOW_BY_US)
    await endLate(fake, SLOW_BY_US)
    await fake.endNext()
    expect((await result).attempts.map(({ verdict }) => verdict)).toEqual(['errored', 'passed'])
    expect(onRetry).toHaveBeenCalledOnce()
  })

  test('a repeated attempt can be cancelled', async () => {
    const fake = fakeType()
    const settings = { types: fake.types, clock: createClock(), workRoot: tmpdir() }
    const runner = createRunner({ ...settings, scrubHeaders: [] })
    const run = runner.begin({ monitor: aMonitor('a'), slot: 1 }, around)
    const attempted = run.attempt()
    await endLate(fake, SLOW_BY_US)
    await fake.next()
    run.cancel('enough')
    await attempted
    expect(run.result().verdict).toBe('cancelled')
  })
})

describe('a failure of the target', () => {
  test.each<[string, Partial<Observation>, string]>([
    ['it refuses', refused, 'failed'],
    ['it is slower than our delay explains', slow(5000), 'failed'],
    ['another failure remains', { failures: [tooSlow(1001), ...refused.failures] }, 'failed'],
    ['it is degraded by more than our delay', { degraded: true, responseTimeMs: 5000 }, 'degraded'],
    ['it is degraded by itself', { degraded: true, observed: { degradedBy: ['x'] } }, 'degraded'],
    ['it passes', { responseTimeMs: 1 }, 'passed'],
  ])('stays: %s', async (_, observation, verdict) => {
    const fake = fakeType()
    const { result } = begin(fake, { degradedResponseTime: 500 })
    await endLate(fake, { responseTimeMs: 600, ...observation })
    expect((await result).verdict).toBe(verdict)
    expect(fake.begun()).toBe(1)
  })

  test('stays when our delay lies before the attempt', async () => {
    const fake = fakeType()
    block()
    const { result } = begin(fake)
    // All in one turn: the loop has no time to be late.
    fake.runs[0]?.end(slow(1001))
    expect((await result).verdict).toBe('failed')
  })
})

test('programs are not repeated: they measure their times in processes of their own', async () => {
  const fake = fakeType()
  const types = new Map([['BROWSER', fake.types.get('URL') as AnyMonitorType]])
  const { result } = begin(fake, { checkType: 'BROWSER' }, types)
  await endLate(fake, SLOW_BY_US)
  expect((await result).verdict).toBe('failed')
})

describe('the deadline', () => {
  test('is put off by our delay', async () => {
    const fake = fakeType({ deadlineMs: 400 })
    const { result } = begin(fake)
    const run = await fake.next()
    block(380)
    await sleep(100)
    run.end()
    expect((await result).verdict).toBe('passed')
  })

  test('comes nevertheless, and what it cut short is ours', async () => {
    const fake = fakeType({ deadlineMs: 100, stubborn: true })
    const { result } = begin(fake)
    for (let attempt = 0; attempt < 2; attempt++) {
      const run = await fake.next()
      const { signal } = run.context
      while (!signal.aborted) {
        block(90)
        await sleep(0)
      }
      expect(signal.reason).toBeInstanceOf(DeadlineReached)
      run.end({ failures: [failure('TIMEOUT_FIRST_BYTE', 'late')] })
    }
    expect((await result).failures).toMatchObject([{ code: 'AGENT_OVERLOADED' }])
  })
})
