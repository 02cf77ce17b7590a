// The real program on a platform: it syncs, runs and delivers, survives a restart while the platform is away,
// hands over when it leaves, and ends with the exit code that says why.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import type { SyncAnswer } from '../../../src/contract/protocol/agent-protocol.ts'
import { VERSION } from '../../../src/contract/versions.ts'
import {
  launchAgentProcess,
  startAgentProcess,
  type AgentProcess,
  type StartedAgent,
} from '../../support/agent/agent-process.ts'
import { createAuthority } from '../../support/network/certificates.ts'
import { startConnectProxy } from '../../support/network/connect-proxy.ts'
import {
  FAKE_KEY,
  json,
  NOTHING,
  startFakePlatform,
  type FakePlatform,
} from '../../support/agent/fake-platform.ts'
import { aMonitor } from '../../support/agent/fake-monitors.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { startHttpServer } from '../../support/test-server.ts'

const open: { close(): unknown }[] = []
const agents: AgentProcess[] = []
afterEach(async () => {
  for (const { child } of agents.splice(0)) child.kill('SIGKILL')
  await Promise.all(open.splice(0).map((one) => one.close()))
})

async function platform(tls?: Parameters<typeof startFakePlatform>[0]): Promise<FakePlatform> {
  const one = await startFakePlatform(tls)
  open.push(one)
  return one
}

async function started(env: Record<string, string>): Promise<StartedAgent> {
  const agent = await startAgentProcess({ API_KEY: FAKE_KEY, ...env })
  agents.push(agent)
  return agent
}

async function target(): Promise<string> {
  const server = await startHttpServer((_, response) => void response.end('ok'))
  open.push(server)
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
  const at = await platform()
  at.say(oneMonitor(await target()))
  const agent = await started({ PLATFORM_URL: at.url, DATA_DIR: temporaryFolder() })
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
  const result = await at.result(({ monitorId }) => monitorId === ID)
  expect(result).toMatchObject({ verdict: 'passed' })
  expect(result.slot % 1000).toBe(0)
  const next = await at.sync(({ have }) => have === '1.2')
  expect(next.agent).toEqual(said.agent)
  expect(await readiness(agent)).toMatchObject({ status: 200, reasons: [], warnings: [] })
  agent.child.kill('SIGTERM')
  expect(await agent.ended).toMatchObject({ code: 0 })
})

test('without a platform it is not ready and says why; the key is nowhere in its output', async () => {
  const gone = await platform()
  await gone.close()
  open.pop()
  const agent = await started({ PLATFORM_URL: gone.url, DATA_DIR: temporaryFolder() })
  await agent.line(({ msg }) => msg?.includes('no sync with the platform') === true)
  const { status, reasons } = await readiness(agent)
  expect([status, reasons.join()]).toEqual([503, expect.stringContaining('refused the connection')])
  const metrics = await (await fetch(`${agent.url}/metrics`)).text()
  expect(metrics).toMatch(/vedette_sync_failures_total\{code="UNREACHABLE"\} \d/)
  agent.child.kill('SIGTERM')
  const { code, stderr } = await agent.ended
  expect(code).toBe(0)
  expect(JSON.stringify(agent.lines) + stderr).not.toContain(FAKE_KEY)
})

describe('a restart while the platform is away', () => {
  async function keptFolder(): Promise<{ folder: string; url: string }> {
    const at = await platform()
    const folder = temporaryFolder()
    at.say(oneMonitor(await target()))
    const agent = await started({ PLATFORM_URL: at.url, DATA_DIR: folder })
    await at.result(() => true)
    agent.child.kill('SIGTERM')
    await agent.ended
    at.misbehave((request) => {
      request.socket.destroy()
      return true
    })
    return { folder, url: at.url }
  }

  test('runs the stored monitors, and delivers when the platform is back', async () => {
    const { folder, url } = await keptFolder()
    const agent = await started({ PLATFORM_URL: url, DATA_DIR: folder })
    await agent.line(({ msg }) => msg?.includes('kept on disk run') === true)
    const { status, warnings } = await readiness(agent)
    expect([status, warnings.join()]).toEqual([200, expect.stringContaining('kept on disk')])
    const back = open.find((one) => 'misbehave' in one) as FakePlatform
    const before = back.results.length
    back.misbehave(undefined)
    await back.sync(({ have }) => have === '1.2')
    await back.result((one) => back.results.indexOf(one) >= before)
  })

  test('stores nothing that is readable without the key', async () => {
    const { folder, url } = await keptFolder()
    const API_KEY = 'pl_another0123456789'
    const agent = await started({ PLATFORM_URL: url, DATA_DIR: folder, API_KEY })
    await agent.line(({ msg }) => msg?.includes('is ignored') === true)
    expect((await readiness(agent)).status).toBe(503)
  })
})

describe('a key that is refused', () => {
  const refuse = (reason: string) => (at: FakePlatform) =>
    at.misbehave((_, response) => {
      json(response, { statusCode: 401, message: 'No', attributes: { reason } }, 401)
      return true
    })

  test('because it was revoked ends the agent with exit code 3', async () => {
    const at = await platform()
    refuse('revoked')(at)
    const agent = launchAgentProcess({
      API_KEY: FAKE_KEY,
      PLATFORM_URL: at.url,
      DATA_DIR: temporaryFolder(),
    })
    agents.push(agent)
    expect(await agent.ended).toMatchObject({ code: 3 })
    expect(JSON.stringify(agent.lines)).toContain('API_KEY was revoked')
  })

  test('while it runs, too, after running jobs end', async () => {
    const at = await platform()
    at.say(oneMonitor(await target()))
    const agent = await started({ PLATFORM_URL: at.url, DATA_DIR: temporaryFolder() })
    await at.result(() => true)
    refuse('revoked')(at)
    at.say({})
    expect(await agent.ended).toMatchObject({ code: 3 })
    expect(agent.lines.some(({ msg }) => msg === 'stopped')).toBe(true)
  })

  test('because nobody knows it leaves the agent waiting, not ready', async () => {
    const at = await platform()
    refuse('unknown')(at)
    const agent = await started({ PLATFORM_URL: at.url, DATA_DIR: temporaryFolder() })
    await agent.line(({ msg }) => msg?.includes('does not accept API_KEY') === true)
    expect(await readiness(agent)).toMatchObject({
      status: 503,
      reasons: [expect.stringContaining('does not accept API_KEY')],
    })
    agent.child.kill('SIGTERM')
    expect(await agent.ended).toMatchObject({ code: 0 })
  })
})

describe('SIGTERM', () => {
  /** An agent with one run that lasts until `end` is called, and one slot that waits behind it. */
  async function busy(peers: number) {
    const at = await platform()
    const hanging = Promise.withResolvers<void>()
    const begun = Promise.withResolvers<void>()
    const server = await startHttpServer((_, response) => {
      begun.resolve()
      void hanging.promise.then(() => response.end('ok'))
    })
    open.push(server)
    const slots = { everyMs: 3_600_000, offsetMs: 0 }
    const request = { url: `http://${server.authority}/` }
    const ids = [ID, ID.replaceAll('2', '3')]
    const set = ids.map((id) => ({ monitor: aMonitor(id, { request }), slots, from: 0 }))
    at.say({ revision: '1.2', changes: { whole: true, set, drop: [], variables: [] }, peers })
    const agent = await started({
      PLATFORM_URL: at.url,
      DATA_DIR: temporaryFolder(),
      UPTIME_CONCURRENCY: '1',
    })
    await begun.promise
    // Both are due once the second one is reported; it waits, since there is only one place.
    const waits = async () => {
      const health = (await (await fetch(`${agent.url}/health`)).json()) as {
        queues: { uptime: { waiting: number } }
      }
      return health.queues.uptime.waiting === 1
    }
    while (!(await waits()));
    return { at, agent, end: hanging.resolve, ids }
  }

  test('hands over waiting slots where others accept them, and finishes running jobs', async () => {
    const { at, agent, end } = await busy(1)
    agent.child.kill('SIGTERM')
    const leaving = await at.sync(({ state }) => state === 'leaving')
    expect(leaving.notStarted).toHaveLength(1)
    expect(Math.abs((leaving.leftAt ?? 0) - Date.now())).toBeLessThan(5000)
    await agent.line(({ msg }) => msg?.includes('others take over') === true)
    expect((await readiness(agent)).status).toBe(503)
    end()
    expect(await agent.ended).toMatchObject({ code: 0 })
    expect(at.results.map(({ verdict }) => verdict)).toEqual(['passed'])
  })

  test('alone it reports waiting slots as missed', async () => {
    const { at, agent, end } = await busy(0)
    agent.child.kill('SIGTERM')
    await at.result(({ missedReason }) => missedReason === 'draining')
    end()
    expect(await agent.ended).toMatchObject({ code: 0 })
    expect(at.results.map(({ verdict }) => verdict).toSorted()).toEqual(['missed', 'passed'])
  })

  test('is alone, too, where the platform does not answer', async () => {
    const { at, agent, end } = await busy(1)
    at.misbehave((_, __, said) => said?.state === 'leaving')
    agent.child.kill('SIGTERM')
    await at.result(({ missedReason }) => missedReason === 'draining')
    end()
    expect(await agent.ended).toMatchObject({ code: 0 })
  })
})

test('a proxy with credentials and an authority of one’s own lead to the platform', async () => {
  const authority = createAuthority()
  const at = await platform(authority.issue())
  const proxy = await startConnectProxy({ credentials: 'user:p@ss' })
  open.push(proxy)
  const folder = temporaryFolder()
  writeFileSync(join(folder, 'ca.pem'), authority.ca)
  const agent = await started({
    PLATFORM_URL: at.url,
    DATA_DIR: folder,
    HTTPS_PROXY: `http://user:p%40ss@${proxy.authority}`,
    NODE_EXTRA_CA_CERTS: join(folder, 'ca.pem'),
  })
  await at.sync(({ have }) => have === NOTHING.revision)
  expect(proxy.requestLines).toContain(`CONNECT ${at.authority}`)
  agent.child.kill('SIGTERM')
  expect(await agent.ended).toMatchObject({ code: 0 })
})

test('two agents of one DATA_DIR are two agents, and each is the same after a restart', async () => {
  const at = await platform()
  const env = { PLATFORM_URL: at.url, DATA_DIR: temporaryFolder() }
  const [one, two] = [await started(env), await started(env)]
  await at.sync(({ agent }) => agent.id !== at.syncs[0]?.agent.id)
  const ids = new Set(at.syncs.map(({ agent }) => agent.id))
  expect(ids.size).toBe(2)
  for (const agent of [one, two]) {
    agent.child.kill('SIGTERM')
    await agent.ended
  }
  const instances = new Set(at.syncs.map(({ agent }) => agent.instance))
  await started(env)
  const again = await at.sync(({ agent }) => !instances.has(agent.instance))
  expect(ids.has(again.agent.id)).toBe(true)
})
