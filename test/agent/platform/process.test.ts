// The real program on a platform: it syncs, runs, delivers and hands over; its exit code says why it ended.
import { expect, onTestFinished, test } from 'vitest'
import type { SyncAnswer, SyncRequest } from '../../../src/contract/protocol/agent-protocol.ts'
import { VERSION } from '../../../src/contract/versions.ts'
import { startAgentProcess } from '../../support/agent/agent-process.ts'
import { eventually } from '../../support/eventually.ts'
import { FAKE_KEY, json, startFakePlatform } from '../../support/agent/fake-platform.ts'
import { aMonitor } from '../../support/agent/fake-monitors.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { startHttpServer } from '../../support/test-server.ts'

/** Closes it at the end of the test. */
async function opened<T extends { close(): unknown }>(starting: Promise<T>): Promise<T> {
  const one = await starting
  onTestFinished(() => void one.close())
  return one
}

const started = (PLATFORM_URL: string, env: Record<string, string> = {}) =>
  startAgentProcess({ API_KEY: FAKE_KEY, PLATFORM_URL, DATA_DIR: temporaryFolder(), ...env })

async function target(): Promise<string> {
  const server = await opened(startHttpServer((_, response) => void response.end('ok')))
  return `http://${server.authority}/`
}

const ID = '22222222-2222-4222-8222-222222222222'

/** An answer that gives out one monitor, every `everyMs`, from now on. */
function oneMonitor(url: string, everyMs = 1000, from = Date.now()): Partial<SyncAnswer> {
  const monitor = aMonitor(ID, { request: { url }, frequencyOffset: everyMs / 1000 })
  const set = [{ monitor, slots: { everyMs, offsetMs: 0 }, from }]
  return { revision: '1.2', changes: { whole: true, set, drop: [], variables: [] } }
}

async function readiness({ url }: { url: string }) {
  const response = await fetch(`${url}/-/readiness`)
  const body = (await response.json()) as { reasons: string[]; warnings: string[] }
  return { ...body, status: response.status }
}

test('it reports its facts, runs its monitors, and delivers', async () => {
  const at = await opened(startFakePlatform())
  at.say(oneMonitor(await target()))
  const agent = await started(at.url)
  const said = await at.sync(() => true)
  expect(said).toMatchObject({
    agent: { version: VERSION, image: 'agent', engines: [], runtimes: [] },
    state: 'running',
    have: null,
    runs: [],
    queues: { uptime: { waiting: 0, running: 0, free: 256 } },
    waitMs: 0,
  })
  expect(said.agent.checkTypes).toContain('URL')
  const result = await at.result((one) => one.monitorId === ID && one.verdict === 'passed')
  expect(result.slot % 1000).toBe(0)
  const next = await at.sync(({ have }) => have === '1.2')
  expect(next.agent).toEqual(said.agent)
  expect(await readiness(agent)).toMatchObject({ status: 200, reasons: [], warnings: [] })
  expect(await agent.stop()).toMatchObject({ code: 0 })
})

test('without a platform it is not ready and says why; the key is nowhere in its output', async () => {
  const gone = await startFakePlatform()
  await gone.close()
  const agent = await started(gone.url)
  await agent.line(({ msg }) => msg?.includes('no sync with the platform') === true)
  const { status, reasons } = await readiness(agent)
  expect([status, reasons.join()]).toEqual([503, expect.stringContaining('refused the connection')])
  const metrics = await (await fetch(`${agent.url}/metrics`)).text()
  expect(metrics).toMatch(/vedette_sync_failures_total\{code="UNREACHABLE"\} \d/)
  const { code, stderr } = await agent.stop()
  expect(code).toBe(0)
  expect(JSON.stringify(agent.lines) + stderr).not.toContain(FAKE_KEY)
})

test('a key that is revoked ends it with exit code 3, after running jobs end', async () => {
  const at = await opened(startFakePlatform())
  at.say(oneMonitor(await target()))
  const agent = await started(at.url)
  await at.result(() => true)
  at.misbehave((_, response) => {
    json(response, { statusCode: 401, message: 'No', attributes: { reason: 'revoked' } }, 401)
    return true
  })
  at.say({})
  expect(await agent.ended).toMatchObject({ code: 3 })
  expect(agent.lines.some(({ msg }) => msg === 'stopped')).toBe(true)
  expect(JSON.stringify(agent.lines)).toContain('API_KEY was revoked')
})

test('SIGTERM hands over waiting slots where others accept them, and finishes running jobs', async () => {
  const at = await opened(startFakePlatform())
  const hanging = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  const server = await opened(
    startHttpServer((_, response) => {
      begun.resolve()
      void hanging.promise.then(() => response.end('ok'))
    }),
  )
  const slots = { everyMs: 3_600_000, offsetMs: 0 }
  const request = { url: `http://${server.authority}/` }
  const ids = [ID, ID.replaceAll('2', '3')]
  const set = ids.map((id) => ({ monitor: aMonitor(id, { request }), slots, from: 0 }))
  at.say({ revision: '1.2', changes: { whole: true, set, drop: [], variables: [] }, peers: 1 })
  const agent = await started(at.url, { UPTIME_CONCURRENCY: '1' })
  await begun.promise
  // One is running; the other waits behind it, since there is only one place.
  await eventually(async () => {
    const health = await (await fetch(`${agent.url}/health`)).json()
    return (health as { queues: SyncRequest['queues'] }).queues.uptime.waiting === 1
  })
  agent.child.kill('SIGTERM')
  const leaving = await at.sync(({ state }) => state === 'leaving')
  expect(leaving.notStarted).toHaveLength(1)
  expect(Math.abs((leaving.leftAt ?? 0) - Date.now())).toBeLessThan(5000)
  await agent.line(({ msg }) => msg?.includes('other agents take over') === true)
  expect((await readiness(agent)).status).toBe(503)
  hanging.resolve()
  expect(await agent.ended).toMatchObject({ code: 0 })
  expect(at.results.map(({ verdict }) => verdict)).toEqual(['passed'])
})
