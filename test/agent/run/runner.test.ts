// From a job to its result: deadline, cancel, retries, faults of ours, secrets. The test ends the runs by hand.
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { OVERRUN_MS_MAX, ownFault } from '../../../src/agent/run/attempt.ts'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import { loopDelay } from '../../../src/agent/run/loop-delay.ts'
import type { LocationContext } from '../../../src/agent/run/run-plan.ts'
import { createRunner, type RunnerSettings } from '../../../src/agent/run/runner.ts'
import { ALL_SCRUBBED, SCRUBBED } from '../../../src/agent/redaction/scrub.ts'
import { failure, FAILURES, type FailureCode } from '../../../src/contract/failure.ts'
import type { Monitor, Variable } from '../../../src/contract/monitor.ts'
import type { Observation } from '../../../src/contract/observation.ts'
import { LIMITS } from '../../../src/contract/versions.ts'
import type { Fault } from '../../../src/process/faults/fault.ts'
import type { Dialler } from '../../../src/network/dial.ts'
import { DeadlineReached, isDeadline } from '../../../src/network/deadline.ts'
import type { ScriptContext } from '../../../src/scripts/context.ts'
import { aMonitor, fakeType, type FakeType } from '../../support/agent/fake-monitors.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const workRoot = temporaryFolder()
const around = (variables: Variable[] = [], secrets: string[] = []): LocationContext => ({
  location: 'office',
  variables,
  dial: {} as Dialler,
  secrets,
})
const variable = (key: string, value: string, secret = false) =>
  ({ key, value, secret, locked: false }) satisfies Variable

function runnerOf(fake: FakeType, more: Partial<RunnerSettings> = {}) {
  const settings = { types: fake.types, clock: createClock(), workRoot, scrubHeaders: [] }
  return createRunner({ ...settings, ...more })
}

const never = new AbortController().signal
/** One run of a monitor, the plain one by default. */
const runOf = (fake: FakeType, monitor = aMonitor('a'), place = around(), signal = never) =>
  runnerOf(fake).run({ monitor, slot: 1 }, place, signal)
const refused = failure('CONNECT_REFUSED', 'refused')

describe('a result', () => {
  test('has identity, verdict, times and observation', async () => {
    const fake = fakeType()
    const times = { startedAt: expect.any(Number), durationMs: expect.any(Number) }
    const running = runnerOf(fake).run({ monitor: aMonitor('a'), slot: 42 }, around(), never)
    await fake.endNext({ responseTimeMs: 5.00000000000051 })
    expect(await running).toEqual({
      monitorId: 'a',
      monitorName: 'Monitor a',
      checkType: 'URL',
      location: 'office',
      slot: 42,
      verdict: 'passed',
      ...times,
      responseTimeMs: 5,
      attempts: [{ ...times, verdict: 'passed', failures: [] }],
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
    const result = await runOf(fake, monitor)
    expect(result).toMatchObject({ verdict: 'errored', failures: [{ code }] })
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
    const deadlineMs = () => {
      throw new Error('odd hunter22')
    }
    const types = new Map([['URL', { ...fake.types.get('URL'), deadlineMs } as never]])
    const result = await runOf({ ...fake, types })
    expect(result.failures[0]?.code).toBe('INTERNAL')
    expect(JSON.stringify(result)).not.toContain('hunter22')
    expect(result.failures[0]?.details?.['stack']).toContain('runner.test.ts')
  })
})

describe('time', () => {
  test('the deadline aborts with a reason that the monitor can recognize', async () => {
    const fake = fakeType({ deadlineMs: 20, stubborn: true })
    const running = runOf(fake)
    const late = await fake.next()
    const { context } = late
    const recognized: boolean[] = []
    context.signal.addEventListener('abort', () => {
      recognized.push(isDeadline(context.signal))
      late.end({})
    })
    expect(context.signal.reason).toBeUndefined()
    await running
    expect(context.signal.reason).toBeInstanceOf(DeadlineReached)
    expect(recognized).toEqual([true])
  })

  test('a monitor that ignores its deadline is abandoned, counted, and logged', async () => {
    // Real delay has no place among timers that are moved by hand.
    const watch = { delayMs: () => 0, end: () => undefined }
    vi.spyOn(loopDelay, 'watch').mockReturnValueOnce(watch)
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const fake = fakeType({ deadlineMs: 1000, stubborn: true })
    const onAbandoned = vi.fn<(type: string) => void>()
    const job = { monitor: aMonitor('a'), slot: 1 }
    const running = runnerOf(fake, { onAbandoned }).run(job, around(), never)
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
    const running = runOf(fake, aMonitor('a'), around(), stop.signal)
    const run = await fake.next()
    stop.abort()
    run.end({ failures: [refused] })
    const { verdict, failures } = await running
    expect([verdict, failures.map((one) => one.code)]).toEqual(['cancelled', ['CANCELLED']])
  })
})

describe('retries', () => {
  const retryStrategy = { type: 'FIXED', baseBackoffSeconds: 0, maxRetries: 2 }
  const failing = (code: FailureCode) => ({ failures: [failure(code, 'x')] })
  const FAILED = failing('CONNECT_REFUSED')
  const withRetries = aMonitor('a', { retryStrategy })

  test.each<[string, Partial<Observation>[], string, number]>([
    ['a failed attempt is tried again until one passes', [FAILED, {}], 'passed', 2],
    ['as often as allowed', [FAILED, FAILED, FAILED, {}], 'failed', 3],
    ['a passing fault of ours too', [failing('PROXY_UNREACHABLE'), {}], 'passed', 2],
    ['a lasting fault of ours not', [failing('ADDRESS_BLOCKED'), {}], 'errored', 1],
    ['a degraded attempt not', [{ degraded: true }, {}], 'degraded', 1],
  ])('%s', async (_, outcomes, verdict, attempts) => {
    const left = [...outcomes]
    const fake = fakeType({ run: () => ({ observed: {}, failures: [], ...left.shift() }) })
    const result = await runOf(fake, withRetries)
    expect([result.verdict, result.attempts.length]).toEqual([verdict, attempts])
  })

  test('values of headers of an earlier attempt stand nowhere in the result', async () => {
    const left = ['first-1a2b', 'later-3c4d']
    const run = () => {
      const value = left.shift() ?? ''
      const failures = value === 'first-1a2b' ? [failure('ASSERTION_FAILED', `got ${value}`)] : []
      const headers = { 'set-cookie': `sid=${value}` }
      return { observed: { headers, body: 'first-1a2b, later-3c4d' }, failures }
    }
    const result = await runOf(fakeType({ run }), withRetries)
    expect(result.attempts).toHaveLength(2)
    expect(result.attempts[0]?.failures[0]?.message).toBe(`got ${SCRUBBED}`)
    expect(result.observed['body']).toBe(`${SCRUBBED}, ${SCRUBBED}`)
  })

  test('waiting for the next attempt ends when the run is cancelled', async () => {
    const fake = fakeType({ run: () => ({ observed: { fact: 1 }, failures: [refused] }) })
    const slow = aMonitor('a', { retryStrategy: { type: 'FIXED', baseBackoffSeconds: 500 } })
    const stop = new AbortController()
    const run = runnerOf(fake).begin({ monitor: slow, slot: 1 }, around())
    expect(await run.attempt()).toBe(500_000)
    const running = runOf(fake, slow, around(), stop.signal)
    setImmediate(() => stop.abort())
    const result = await running
    expect(result.verdict).toBe('cancelled')
    expect(result.failures.map((one) => one.code)).toEqual(['CANCELLED', 'CONNECT_REFUSED'])
    expect(result.observed).toEqual({ fact: 1 })
  })
})

describe('variables', () => {
  test('are put in, the monitor’s own before the location’s, which change with the next run', async () => {
    const fake = fakeType()
    const runner = runnerOf(fake)
    const environmentVariables = [{ key: 'HOST', value: 'own' }]
    const request = { url: 'http://{{HOST}}/{{PATH}}' }
    const monitor = aMonitor('a', { request, environmentVariables })
    for (const path of ['one', 'two']) {
      const place = around([variable('HOST', 'shared'), variable('PATH', path)])
      const running = runner.run({ monitor, slot: 1 }, place, never)
      const run = await fake.next()
      expect(run.monitor.request).toEqual({ url: `http://own/${path}` })
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
  const seenWith = async (monitor: Monitor, place: LocationContext, text: string) => {
    const failures = [failure('HTTP_STATUS', text, { text })]
    const fake = fakeType({ run: () => ({ observed: { text }, failures }) })
    return JSON.stringify(await runOf(fake, monitor, place))
  }

  test.each<[string, Record<string, unknown>]>([
    ['a password', { basicAuth: { username: 'u', password: 'hunter2x' } }],
    ['a header', { headers: [{ key: 'X-Api-Key', value: 'hunter2x' }] }],
    ['what follows Bearer', { headers: [{ key: 'Authorization', value: 'Bearer hunter2x' }] }],
    ['a locked value', { queryParameters: [{ key: 'q', value: 'hunter2x', locked: true }] }],
    ['a passphrase', { tls: { passphrase: 'hunter2x' } }],
    ['a password in the URL', { url: 'http://u:hunter2x@h/' }],
    ['a target of a header', { assertions: [{ property: 'x-token', target: 'hunter2x' }] }],
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

  test('nor the value of a sensitive header that an answer had but the result does not show', async () => {
    const received = [
      { header: 'Set-Cookie', value: 'sid=of-a-cookie; Path=/' },
      { header: 'X-Token', value: 'true' },
      { header: 'X-Trace', value: 'of-a-trace' },
    ]
    const observed = { text: 'of-a-cookie, true, of-a-trace' }
    const fake = fakeType({ run: () => ({ observed, failures: [], undisclosed: { received } }) })
    const result = await runOf(fake)
    expect(result.observed).toEqual({ text: `${SCRUBBED}, true, of-a-trace` })
    expect(JSON.stringify(result)).not.toContain('of-a-cookie')
  })

  test.each([
    ['than a run may have', LIMITS.userCodeSecretValuesMax + 1, 'x-token'],
    ['than are reported', 1, ''],
  ])(
    'with more values %s, all texts are scrubbed, and the reason is said',
    async (_, count, name) => {
      const fake = fakeType()
      const types = new Map([
        ['MULTI_STEP', { ...fake.types.get('URL')!, checkType: 'MULTI_STEP' }],
      ])
      const monitor = aMonitor('a', { checkType: 'MULTI_STEP', script: '1' })
      const running = runnerOf(fake, { types }).run({ monitor, slot: 1 }, around(), never)
      const run = await fake.next()
      const { headers } = run.context
      for (let n = 0; n < count; n++) headers?.saw(name, `value-${n}`)
      run.end({ observed: { text: 'open' } })
      const { observed } = await running
      expect(observed).toEqual({ text: SCRUBBED, artifactsLeftOut: [ALL_SCRUBBED] })
    },
  )

  test('a secret that equals a verdict, id or code does not scrub these', async () => {
    const secrets = ['errored', 'failed', 'HTTP_STATUS'].map((one) => variable(one, one, true))
    const result = JSON.parse(await seenWith(aMonitor('failed'), around(secrets), 'x')) as object
    const failures = [{ code: 'HTTP_STATUS' }]
    const parts = { failures, attempts: [{ failures }] }
    expect(result).toMatchObject({ monitorId: 'failed', verdict: 'failed', ...parts })
  })
})

test('the work folder is created at first use, holds artifacts, and is removed afterwards', async () => {
  const fake = fakeType()
  const running = runOf(fake)
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
