// The whole agent in one process: a source of the test's own, a fake monitor, real HTTP for health.
import { tmpdir } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Agent } from '../../src/agent/agent.ts'
import type { Change, MonitorSource } from '../../src/agent/source.ts'
import type { Monitor } from '../../src/contract/monitor.ts'
import type { Result } from '../../src/contract/result.ts'
import type { Dialler } from '../../src/network/dial.ts'
import { collectingLog } from '../support/collecting-log.ts'
import { aMonitor, fakeType } from '../support/agent/fake-monitors.ts'

/** Its offset is 6 ms in its 10 s: its first run comes at once. */
const EARLY = 'm578'

/** A source that the test speaks through. */
function createSource(): MonitorSource & { say(change: Change): void; end(error?: Error): void } {
  const said: Change[] = []
  let wake = Promise.withResolvers<void>()
  let failed: Error | undefined
  return {
    say(change) {
      said.push(change)
      wake.resolve()
    },
    end(error) {
      failed = error
      wake.resolve()
    },
    async *follow(stop) {
      stop.addEventListener('abort', () => wake.resolve())
      while (!stop.aborted) {
        yield* said.splice(0)
        if (failed !== undefined) throw failed
        await wake.promise
        wake = Promise.withResolvers()
      }
    },
  }
}

interface Options {
  deliver?: (result: Result) => Promise<void>
  drainMs?: number
  stopAtOnce?: boolean
  healthHost?: string
}

async function setUp({ deliver, drainMs = 100, stopAtOnce = false, healthHost }: Options = {}) {
  const fake = fakeType()
  const source = createSource()
  const results: Result[] = []
  const { log, lines } = collectingLog()
  const proxies: (string | undefined)[] = []
  const agent = new Agent({
    config: {
      healthPort: 0,
      healthHost,
      jobConcurrency: 1,
      uptimeConcurrency: 256,
      drainMs,
      workRoot: tmpdir(),
      scrubHeaders: [],
    },
    source,
    sink: {
      deliver(result) {
        results.push(result)
        return deliver?.(result) ?? Promise.resolve()
      },
    },
    types: fake.types,
    dial(proxyUrl) {
      proxies.push(proxyUrl)
      return {} as Dialler
    },
    log,
  })
  onTestFinished(() => agent.stop())
  const started = agent.start()
  if (stopAtOnce) void agent.stop()
  await started
  const set = (...monitors: Monitor[]) =>
    source.say({ kind: 'monitors', snapshot: { location: 'office', variables: [], monitors } })
  const get = async (path: string) => {
    const response = await fetch(agent.url() + path)
    return { status: response.status, text: await response.text() }
  }
  const until = async (what: () => boolean | Promise<boolean>) => {
    while (!(await what())) await pause(5)
  }
  return { agent, fake, source, results, lines, proxies, set, get, until }
}

test('a stop during the start leaves nothing open', async () => {
  const { agent, get } = await setUp({ stopAtOnce: true })
  await agent.stopped
  await expect(get('/health')).rejects.toThrow('fetch failed')
})

test('probes and metrics answer on the address that is set, and on no other', async () => {
  const { agent } = await setUp({ healthHost: '127.0.0.2' })
  const { port } = new URL(agent.url())
  expect(agent.url()).toBe(`http://127.0.0.2:${port}`)
  expect((await fetch(`${agent.url()}/health`)).status).toBe(200)
  await expect(fetch(`http://127.0.0.1:${port}/health`)).rejects.toThrow('fetch failed')
})

test('readiness waits for monitors; the first results come within seconds', async () => {
  const { fake, set, get, until, results } = await setUp()
  expect((await get('/-/readiness')).status).toBe(503)
  expect((await get('/-/liveness')).status).toBe(200)
  set(aMonitor(EARLY), aMonitor('b', { frequency: 60 }), aMonitor('c', { activated: false }))
  await until(async () => (await get('/-/readiness')).status === 200)
  await fake.endNext()
  await fake.endNext()
  await until(() => results.length === 2)
  expect(results.map(({ monitorId }) => monitorId).toSorted()).toEqual(['b', EARLY])
  for (const one of results) expect(one).toMatchObject({ location: 'office', verdict: 'passed' })
})

test('metrics show the agent and its monitors; a dropped monitor vanishes', async () => {
  const { fake, set, get, until, results } = await setUp()
  set(aMonitor('a', { frequencyOffset: 1 }))
  await fake.endNext()
  await until(() => results.length > 0)
  const { text } = await get('/metrics')
  const label = 'monitor="a",name="Monitor a",type="URL",location="office"'
  expect(text).toContain(`probe_success{${label}} 1\n`)
  expect(text).toContain(`probe_http_status_code{${label}} 200\n`)
  expect(text).toMatch(/^vedette_results_total\{verdict="passed",type="URL"\} 1$/m)
  expect(text).toMatch(/^vedette_slot_lateness_seconds_count \d+$/m)
  expect(text).toMatch(/^vedette_agent_info\{version="[\d.]+"\} 1$/m)
  set(aMonitor('b', { frequency: 60 }))
  await until(async () => !(await get('/metrics')).text.includes('monitor="a"'))
})

describe('changes', () => {
  test('that are refused leave the monitors running, and are shown everywhere', async () => {
    const { fake, source, set, get, until, lines } = await setUp()
    set(aMonitor(EARLY))
    await fake.next()
    source.say({ kind: 'refused', reason: 'monitors.yaml:3: odd' })
    await until(async () => (await get('/-/readiness')).text.includes('monitors.yaml:3: odd'))
    expect((await get('/-/readiness')).status).toBe(200)
    expect((await get('/metrics')).text).toContain('vedette_config_last_reload_successful 0')
    expect(lines.some((line) => line.includes('monitors.yaml:3: odd'))).toBe(true)
    set(aMonitor(EARLY))
    await until(async () => !(await get('/-/readiness')).text.includes('odd'))
  })

  test('of the proxy make a new way out, others do not', async () => {
    const { source, set, proxies, until } = await setUp()
    set(aMonitor(EARLY))
    set(aMonitor('b'))
    const proxyUrl = 'http://u:p@proxy:1'
    const snapshot = { location: 'office', variables: [], monitors: [aMonitor(EARLY)], proxyUrl }
    source.say({ kind: 'monitors', snapshot })
    await until(() => proxies.length === 2)
    expect(proxies).toEqual([undefined, proxyUrl])
  })

  test('can ask for runs and cancel them', async () => {
    const { fake, source, set, until, results } = await setUp()
    set(aMonitor(EARLY, { activated: false }))
    source.say({ kind: 'run', run: 'one', monitorId: EARLY })
    source.say({ kind: 'run', run: 'two', monitorId: 'unknown' })
    await fake.next()
    source.say({ kind: 'cancel', run: 'one' })
    await until(() => results.length === 1)
    expect(results[0]).toMatchObject({ onDemand: 'one', verdict: 'cancelled' })
  })

  test('that remove a running monitor and add it again do not run it twice at a time', async () => {
    const { fake, set, until, results } = await setUp()
    const a = aMonitor('a', { frequencyOffset: 1 })
    set(a)
    const run = await fake.next()
    set()
    set(aMonitor('b', { activated: false }))
    set(a)
    await until(() => results.length > 0 || fake.begun() > 1)
    expect(fake.begun()).toBe(1)
    expect(results[0]).toMatchObject({ monitorId: 'a', missedReason: 'still-running' })
    run.end()
    await until(() => fake.begun() > 1)
    const passed = results.filter(({ verdict }) => verdict === 'passed')
    expect(passed.map(({ monitorId }) => monitorId)).toEqual(['a'])
  })

  test('that end with an error leave the monitors running', async () => {
    const { fake, source, set, get, until, lines } = await setUp()
    set(aMonitor(EARLY))
    await fake.next()
    source.end(new Error('the disk is on fire'))
    await until(() => lines.some((line) => line.includes('the disk is on fire')))
    expect((await get('/-/readiness')).status).toBe(200)
  })
})

describe('stopping', () => {
  test('readiness changes in the same tick; the others answer until everything is delivered', async () => {
    const { agent, fake, set, get, results } = await setUp({ drainMs: 20_000 })
    set(aMonitor(EARLY))
    const run = await fake.next()
    const stopped = agent.stop()
    const answers = await Promise.all(
      ['/-/readiness', '/-/liveness', '/health', '/metrics'].map(get),
    )
    expect(answers.map(({ status }) => status)).toEqual([503, 200, 200, 200])
    run.end()
    await stopped
    expect(results.at(-1)).toMatchObject({ monitorId: EARLY, verdict: 'passed' })
    await expect(get('/health')).rejects.toThrow('fetch failed')
  })

  test('a result in delivery is waited for', async () => {
    const delivered = Promise.withResolvers<void>()
    const deliver = () => delivered.promise
    const { agent, fake, set, get, until, results } = await setUp({ deliver })
    set(aMonitor(EARLY))
    await fake.endNext()
    await until(() => results.length > 0)
    let over = false
    const stopped = agent.stop().then(() => (over = true))
    expect((await get('/health')).status).toBe(200)
    expect(over).toBe(false)
    delivered.resolve()
    await stopped
  })
})

test('a sink that fails ends nothing, is counted, and is logged once', async () => {
  const deliver = () => Promise.reject(new Error('no room'))
  const { fake, source, set, get, until, lines } = await setUp({ deliver })
  set(aMonitor(EARLY, { frequency: 60 }))
  for (const run of ['one', 'two', 'three']) source.say({ kind: 'run', run, monitorId: EARLY })
  for (let n = 0; n < 4; n++) await fake.endNext()
  await until(async () =>
    (await get('/metrics')).text.includes('vedette_delivery_failures_total 4'),
  )
  expect(lines.filter((line) => line.includes('cannot be delivered'))).toHaveLength(1)
})
