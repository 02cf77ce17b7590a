// From a job to its result: deadline, cancel, retries, faults of ours, secrets. The monitor is a fake
// whose runs the test ends by hand.
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { OVERRUN_MS_MAX, ownFault } from '../../../src/agent/run/attempt.ts'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import { loopDelay } from '../../../src/agent/run/loop-delay.ts'
import type { LocationContext } from '../../../src/agent/run/run-plan.ts'
import { createRunner, type RunnerSettings } from '../../../src/agent/run/runner.ts'
import { SCRUBBED } from '../../../src/agent/redaction/scrub.ts'
import { failure, FAILURES, type FailureCode } from '../../../src/contract/failure.ts'
import type { Variable } from '../../../src/contract/monitor.ts'
import type { Fault } from '../../../src/process/faults/fault.ts'
import type { Dialler } from '../../../src/network/dial.ts'
import { DeadlineReached, isDeadline } from '../../../src/network/deadline.ts'
import type { ScriptContext } from '../../../src/scripts/context.ts'
import { aMonitor, fakeType, type FakeType } from '../../support/agent/fake-monitors.ts'

let workRoot = ''
beforeAll(async () => {
  workRoot = await mkdtemp(join(tmpdir(), 'vedette-runner-'))
})
afterAll(() => rm(workRoot, { recursive: true }))

const around = (variables: Variable[] = [], secrets: string[] = []): LocationContext => ({
  location: 'office',
  variables,
  dial: {} as Dialler,
  secrets,
})
const variable = (key: string, value: string, secret = false): Variable => ({
  key,
  value,
  secret,
  locked: false,
})

function runnerOf(fake: FakeType, more: Partial<RunnerSettings> = {}) {
  const settings = { types: fake.types, clock: createClock(), workRoot, scrubHeaders: [] }
  return createRunner({ ...settings, ...more })
}

const never = new AbortController().signal
const refused = failure('CONNECT_REFUSED', 'refused')

describe('a result', () => {
  test('has identity, verdict, times and observation', async () => {
    const fake = fakeType()
    const running = runnerOf(fake).run({ monitor: aMonitor('a'), slot: 42 }, around(), never)
    const run = await fake.next()
    run.end({ responseTimeMs: 5.00000000000051 })
    expect(await running).toEqual({
      monitorId: 'a',
      monitorName: 'Monitor a',
      checkType: 'URL',
      location: 'office',
      slot: 42,
      verdict: 'passed',
      startedAt: expect.any(Number),
      durationMs: expect.any(Number),
      responseTimeMs: 5,
      attempts: [
        {
          startedAt: expect.any(Number),
          durationMs: expect.any(Number),
          verdict: 'passed',
          failures: [],
        },
      ],
      observed: { statusCode: 200 },
      failures: [],
      artifacts: [],
    })
  })

  test('of a run on demand names the run', async () => {
    const fake = fakeType({ run: () => ({ observed: {}, failures: [], degraded: true }) })
    const job = { monitor: aMonitor('a'), slot: 1, onDemand: 'run-1' }
    const result = await runnerOf(fake).run(job, around(), never)
    expect(result).toMatchObject({ onDemand: 'run-1', verdict: 'degraded' })
  })
})

describe('a problem that keeps a monitor from running is about us', () => {
  const bad = aMonitor('a', { request: { uri: 'x' } })
  test.each([
    ['bad settings', bad, 'SETTINGS_INVALID'],
    ['an unknown type', aMonitor('a', { checkType: 'HEARTBEAT' }), 'CHECK_TYPE_UNSUPPORTED'],
    ['an unknown variable', aMonitor('a', { request: { url: '{{NOPE}}' } }), 'VARIABLE_UNKNOWN'],
  ])('%s', async (_, monitor, code) => {
    const fake = fakeType()
    const result = await runnerOf(fake).run({ monitor, slot: 1 }, around(), never)
    expect(result.verdict).toBe('errored')
    expect(result.failures.map((one) => one.code)).toEqual([code])
    expect(fake.begun()).toBe(0)
  })

  test('a monitor that throws: the fault is reported with its place, without its message', async () => {
    const fake = fakeType()
    const faults: Fault[] = []
    const runner = runnerOf(fake, { onFault: (fault) => faults.push(fault) })
    const running = runner.run({ monitor: aMonitor('a'), slot: 1 }, around(), never)
    const run = await fake.next()
    run.fail(new TypeError('undefined is not a dog'))
    const { verdict, failures } = await running
    expect([verdict, failures[0]?.code]).toEqual(['errored', 'INTERNAL'])
    expect(failures[0]?.message).toContain('undefined is not a dog')
    expect(faults).toMatchObject([{ class: 'TypeError', code: 'INTERNAL' }])
    expect(faults[0]?.text).not.toContain('dog')
    expect(faults[0]?.at[0]).toContain('runner.test.ts')
  })

  test('of all failures, two are faults of ours', () => {
    const codes = Object.keys(FAILURES) as FailureCode[]
    const own = codes.filter((code) => ownFault(failure(code, 'x'), 'TCP') !== undefined)
    expect(own).toEqual(['DEADLINE_IGNORED', 'INTERNAL'])
  })

  test('a schema that throws', async () => {
    const fake = fakeType()
    const url = fake.types.get('URL')
    const types = new Map([
      [
        'URL',
        {
          ...url,
          deadlineMs: () => {
            throw new Error('odd hunter22')
          },
        } as never,
      ],
    ])
    const result = await runnerOf({ ...fake, types }).run(
      { monitor: aMonitor('a'), slot: 1 },
      around(),
      never,
    )
    expect(result.failures[0]?.code).toBe('INTERNAL')
    expect(JSON.stringify(result)).not.toContain('hunter22')
    expect(result.failures[0]?.details?.['stack']).toContain('runner.test.ts')
  })
})

describe('time', () => {
  test('the deadline aborts with a reason that the monitor can recognize', async () => {
    const fake = fakeType({ deadlineMs: 20, stubborn: true })
    const running = runnerOf(fake).run({ monitor: aMonitor('a'), slot: 1 }, around(), never)
    const late = await fake.next()
    const { context } = late
    context.signal.addEventListener('abort', () => {
      const timeIsUp = isDeadline(context.signal)
      late.end({ failures: timeIsUp ? [failure('TIMEOUT_CONNECT', 'late')] : [] })
    })
    expect(context.signal.reason).toBeUndefined()
    const result = await running
    expect(context.signal.reason).toBeInstanceOf(DeadlineReached)
    expect(result.verdict).toBe('failed')
  })

  test('a monitor that ignores its deadline is abandoned, counted, and logged', async () => {
    // Real delay has no place among timers that are moved by hand.
    const watch = { delayMs: () => 0, end: () => undefined }
    vi.spyOn(loopDelay, 'watch').mockReturnValueOnce(watch)
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const fake = fakeType({ deadlineMs: 1000, stubborn: true })
    const onAbandoned = vi.fn<(type: string) => void>()
    const running = runnerOf(fake, { onAbandoned }).run(
      { monitor: aMonitor('a'), slot: 1 },
      around(),
      never,
    )
    await fake.next()
    await vi.advanceTimersByTimeAsync(1000 + OVERRUN_MS_MAX)
    const { verdict, failures } = await running
    vi.useRealTimers()
    expect([verdict, failures[0]?.code]).toEqual(['errored', 'DEADLINE_IGNORED'])
    expect(onAbandoned.mock.calls).toEqual([['URL']])
  })

  test('a cancelled run says nothing about the target, whatever was observed', async () => {
    const fake = fakeType({ stubborn: true })
    const stop = new AbortController()
    const running = runnerOf(fake).run({ monitor: aMonitor('a'), slot: 1 }, around(), stop.signal)
    const run = await fake.next()
    stop.abort()
    run.end({ failures: [refused] })
    const { verdict, failures } = await running
    expect([verdict, failures.map((one) => one.code)]).toEqual(['cancelled', ['CANCELLED']])
  })
})

describe('retries', () => {
  const retryStrategy = { type: 'FIXED', baseBackoffSeconds: 0, maxRetries: 2 }
  const withRetries = aMonitor('a', { retryStrategy })

  test.each([
    ['a failed attempt is tried again until one passes', [[refused], []], 'passed', 2],
    ['as often as allowed', [[refused], [refused], [refused], []], 'failed', 3],
    ['a passing fault of ours too', [[failure('PROXY_UNREACHABLE', 'x')], []], 'passed', 2],
    ['a lasting fault of ours not', [[failure('ADDRESS_BLOCKED', 'x')], []], 'errored', 1],
  ])('%s', async (_, outcomes, verdict, attempts) => {
    const failures = [...outcomes]
    const fake = fakeType({ run: () => ({ observed: {}, failures: failures.shift() ?? [] }) })
    const result = await runnerOf(fake).run({ monitor: withRetries, slot: 1 }, around(), never)
    expect([result.verdict, result.attempts.length]).toEqual([verdict, attempts])
  })

  test('a degraded attempt is not tried again', async () => {
    const fake = fakeType({ run: () => ({ observed: {}, failures: [], degraded: true }) })
    const result = await runnerOf(fake).run({ monitor: withRetries, slot: 1 }, around(), never)
    expect([result.verdict, result.attempts.length]).toEqual(['degraded', 1])
  })

  test('waiting for the next attempt ends when the run is cancelled', async () => {
    const fake = fakeType({ run: () => ({ observed: { fact: 1 }, failures: [refused] }) })
    const slow = aMonitor('a', { retryStrategy: { type: 'FIXED', baseBackoffSeconds: 500 } })
    const stop = new AbortController()
    const run = runnerOf(fake).begin({ monitor: slow, slot: 1 }, around())
    expect(await run.attempt()).toBe(500_000)
    const running = runnerOf(fake).run({ monitor: slow, slot: 1 }, around(), stop.signal)
    setImmediate(() => stop.abort())
    const result = await running
    expect(result.verdict).toBe('cancelled')
    expect(result.failures.map((one) => one.code)).toEqual(['CANCELLED', 'CONNECT_REFUSED'])
    expect(result.observed).toEqual({ fact: 1 })
  })
})

describe('variables', () => {
  test('are put in, the monitor’s own before the location’s', async () => {
    const fake = fakeType()
    const environmentVariables = [{ key: 'HOST', value: 'own' }]
    const monitor = aMonitor('a', {
      request: { url: 'http://{{HOST}}/{{PATH}}' },
      environmentVariables,
    })
    const variables = [variable('HOST', 'shared'), variable('PATH', 'p')]
    const running = runnerOf(fake).run({ monitor, slot: 1 }, around(variables), never)
    const run = await fake.next()
    expect(run.monitor.request).toEqual({ url: 'http://own/p' })
    run.end()
    await running
  })

  test('that change hold from the next run on', async () => {
    const fake = fakeType()
    const runner = runnerOf(fake)
    const monitor = aMonitor('a', { request: { url: '{{HOST}}' } })
    for (const value of ['one', 'two']) {
      const running = runner.run({ monitor, slot: 1 }, around([variable('HOST', value)]), never)
      const run = await fake.next()
      expect(run.monitor.request).toEqual({ url: value })
      run.end()
      await running
    }
  })

  test('a definition is parsed once, however often it runs', async () => {
    const fake = fakeType({ run: () => ({ observed: {}, failures: [] }) })
    const url = fake.types.get('URL')
    const parse = vi.spyOn(url?.schema as NonNullable<typeof url>['schema'], 'safeParse')
    const runner = runnerOf(fake)
    const [monitor, place] = [aMonitor('a'), around()]
    for (let n = 0; n < 5; n++) await runner.run({ monitor, slot: n }, place, never)
    expect(parse).toHaveBeenCalledTimes(1)
  })
})

describe('secrets', () => {
  const seenWith = async (
    monitor: ReturnType<typeof aMonitor>,
    place: LocationContext,
    text: string,
  ) => {
    const fake = fakeType({
      run: () => ({ observed: { text }, failures: [failure('HTTP_STATUS', text, { text })] }),
    })
    return JSON.stringify(await runnerOf(fake).run({ monitor, slot: 1 }, place, never))
  }

  test.each<[string, Record<string, unknown>]>([
    ['a password', { basicAuth: { username: 'u', password: 'hunter2x' } }],
    ['a header', { headers: [{ key: 'X-Api-Key', value: 'hunter2x' }] }],
    ['what follows Bearer', { headers: [{ key: 'Authorization', value: 'Bearer hunter2x' }] }],
    ['a locked value', { queryParameters: [{ key: 'q', value: 'hunter2x', locked: true }] }],
    ['a passphrase', { tls: { passphrase: 'hunter2x' } }],
    ['a password in the URL', { url: 'http://u:hunter2x@h/' }],
    [
      'what a header is compared with',
      { assertions: [{ property: 'x-token', target: 'hunter2x' }] },
    ],
  ])('%s of the definition is in no part of the result', async (_, request) => {
    const monitor = aMonitor('a', { request: { url: 'http://h/', ...request } })
    const text = await seenWith(monitor, around(), 'it says hunter2x')
    expect(text).toContain(SCRUBBED)
    expect(text).not.toContain('hunter2x')
  })

  test('nor a secret variable, of the location or the monitor, nor the proxy’s password', async () => {
    const environmentVariables = [{ key: 'A', value: 'first-one', secret: true }]
    const place = around([variable('B', 'second-one', true), variable('C', 'open')], ['third-one'])
    const monitor = aMonitor('a', { environmentVariables })
    const text = await seenWith(monitor, place, 'first-one second-one third-one open')
    expect(text).not.toMatch(/first-one|second-one|third-one/)
    expect(text).toContain('open')
  })

  test('a secret that equals a verdict or id does not scrub these', async () => {
    const place = around([variable('A', 'errored', true), variable('B', 'failed', true)])
    const result = JSON.parse(await seenWith(aMonitor('failed'), place, 'x')) as object
    expect(result).toMatchObject({ monitorId: 'failed', verdict: 'failed' })
  })
})

describe('the work folder', () => {
  test('is created at first use, holds artifacts, and is removed afterwards', async () => {
    const fake = fakeType()
    const running = runnerOf(fake).run({ monitor: aMonitor('a'), slot: 1 }, around(), never)
    const run = await fake.next()
    const { context } = run as { context: ScriptContext }
    expect(await readdir(workRoot)).toEqual([])
    const folder = await context.workFolder()
    expect(await context.workFolder()).toBe(folder)
    await writeFile(join(folder, 'trace.zip'), 'abc')
    context.attach(join(folder, 'trace.zip'))
    context.attach('/etc/passwd')
    context.attach(join(folder, 'missing'))
    run.end()
    const { artifacts } = await running
    expect(artifacts).toEqual([
      {
        name: 'trace.zip',
        bytes: 3,
        sha256: 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
        contentType: 'application/octet-stream',
      },
    ])
    expect(await readdir(workRoot)).toEqual([])
  })
})
