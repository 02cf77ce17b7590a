// The real process is stopped once, stopped twice, killed, or cannot start. Targets are servers of the test that
// answer when the test wants.
import { writeFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { afterEach, describe, expect, test } from 'vitest'
import type { Result } from '../../src/contract/result.ts'
import {
  launchAgentProcess,
  startAgentProcess,
  type AgentProcess,
  type StartedAgent,
} from '../support/agent/agent-process.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFile } from '../support/temporary-folder.ts'
import { startHttpServer } from '../support/test-server.ts'

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp()
})

/** A server whose requests are answered by hand. */
async function holdingServer() {
  const held: ServerResponse[] = []
  const server = await startHttpServer((_, response) => void held.push(response))
  cleanUps.push(() => server.close())
  return {
    url: `http://${server.authority}/`,
    held,
    requests: (count: number) => eventually(() => held.length >= count),
  }
}

async function monitorsFile(url: string, count = 3): Promise<string> {
  const monitors = Array.from(
    { length: count },
    (_, n) =>
      `  - {id: m${n}, name: monitor ${n}, type: URL, every: 1d, maxResponseTime: 30000, request: {url: "${url}"}}`,
  )
  return temporaryFile('monitors.yaml', `monitors:\n${monitors.join('\n')}\n`)
}

async function start(env: Record<string, string>): Promise<StartedAgent> {
  const agent = await startAgentProcess(env)
  cleanUps.push(() => agent.child.exitCode ?? agent.child.kill('SIGKILL'))
  return agent
}

/** Starts one that is not waited for. */
function launch(env: Record<string, string>): AgentProcess {
  const agent = launchAgentProcess(env)
  cleanUps.push(() => agent.child.exitCode ?? agent.child.kill('SIGKILL'))
  return agent
}

const statusOf = async (agent: StartedAgent, path: string) => (await fetch(agent.url + path)).status
const resultsOf = (agent: AgentProcess) =>
  agent.lines.flatMap((line) => (line['result'] === undefined ? [] : [line['result'] as Result]))

describe('SIGTERM while jobs run', () => {
  test('readiness says no at once, the others answer, the jobs end and are delivered, exit 0', async () => {
    const server = await holdingServer()
    const agent = await start({ MONITORS_FILE: await monitorsFile(server.url) })
    await server.requests(3)
    expect(await statusOf(agent, '/-/readiness')).toBe(200)
    agent.child.kill('SIGTERM')
    await agent.line(({ msg }) => msg === 'stop signal received')
    expect(await statusOf(agent, '/-/readiness')).toBe(503)
    expect(await statusOf(agent, '/-/liveness')).toBe(200)
    expect(await statusOf(agent, '/health')).toBe(200)
    expect(resultsOf(agent)).toEqual([])
    for (const response of server.held) response.end('late but well')
    expect(await agent.ended).toMatchObject({ code: 0, stderr: '' })
    const verdicts = resultsOf(agent).map(({ monitorId, verdict }) => `${monitorId} ${verdict}`)
    expect(verdicts.toSorted()).toEqual(['m0 passed', 'm1 passed', 'm2 passed'])
  })

  test.each([
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const)('a second signal, %s, ends it at once with %i', async (signal, code) => {
    const server = await holdingServer()
    const agent = await start({ MONITORS_FILE: await monitorsFile(server.url) })
    await server.requests(1)
    agent.child.kill('SIGTERM')
    await agent.line(({ msg }) => msg === 'stop signal received')
    agent.child.kill(signal)
    expect(await agent.ended).toMatchObject({ code })
  })
})

test('killed and restarted, it listens on its port again and runs the present slots', async () => {
  const server = await holdingServer()
  const MONITORS_FILE = await monitorsFile(server.url)
  const first = await start({ MONITORS_FILE })
  await server.requests(3)
  first.child.kill('SIGKILL')
  expect(await first.ended).toMatchObject({ signal: 'SIGKILL' })
  const { port } = new URL(first.url)
  const second = await start({ MONITORS_FILE, AGENT_HEALTH_PORT: port })
  await server.requests(6)
  for (const response of server.held) response.end('well')
  await second.line((line) => (line['result'] as Result | undefined)?.monitorId === 'm2')
  second.child.kill('SIGTERM')
  expect(await second.ended).toMatchObject({ code: 0 })
  const results = resultsOf(second)
  const slots = results.map(({ monitorId, slot }) => `${monitorId} ${slot}`)
  expect(new Set(slots).size).toBe(slots.length)
  expect(new Set(results.map(({ monitorId }) => monitorId)).size).toBe(3)
})

describe('SIGHUP', () => {
  test('reads the file again; a bad one leaves the monitors running', async () => {
    const server = await holdingServer()
    const MONITORS_FILE = await monitorsFile(server.url)
    const agent = await start({ MONITORS_FILE })
    await server.requests(3)
    await writeFile(MONITORS_FILE, 'monitors: [{nome: x}]\n')
    agent.child.kill('SIGHUP')
    await agent.line(({ level }) => level === 'error')
    expect(await statusOf(agent, '/-/readiness')).toBe(200)
    const readiness = await (await fetch(`${agent.url}/-/readiness`)).text()
    expect(readiness).toContain('monitors.yaml:1')
    expect((await fetch(`${agent.url}/health`)).status).toBe(200)
  })
})

describe('a signal while the file is read for the first time', () => {
  // A file that is slow to read, and a warning, which is logged when the signals are listened to.
  const env = async () => ({
    MONITORS_FILE: await monitorsFile('http://127.0.0.1:9/', 3000),
    API_KEY: 'pl_verysecretkey123',
  })

  test('SIGHUP ends nothing', async () => {
    const agent = launch(await env())
    await agent.line(({ level }) => level === 'warn')
    agent.child.kill('SIGHUP')
    expect(await agent.line(({ msg }) => msg === 'agent started')).toMatchObject({ level: 'info' })
  })

  test('SIGTERM ends it, with exit 0', async () => {
    const agent = launch(await env())
    await agent.line(({ level }) => level === 'warn')
    agent.child.kill('SIGTERM')
    expect(await agent.ended).toEqual({ code: 0, signal: null, stderr: '' })
  })
})

test('a log reader that disconnects ends nothing', async () => {
  const server = await holdingServer()
  const agent = await start({ MONITORS_FILE: await monitorsFile(server.url) })
  await server.requests(3)
  agent.child.stdout?.destroy()
  agent.child.stderr?.destroy()
  for (const response of server.held) response.end('nobody reads of it')
  expect(await statusOf(agent, '/-/readiness')).toBe(200)
  agent.child.kill('SIGTERM')
  expect(await agent.ended).toMatchObject({ code: 0 })
})

test('with bad settings it does not start: all of them are named, exit 2', async () => {
  const { code, stderr } = await launch({ JOB_CONCURRENCY: '12', LOG_LEVEL: 'loud' }).ended
  expect(code).toBe(2)
  for (const name of ['JOB_CONCURRENCY', 'LOG_LEVEL', 'MONITORS_FILE']) {
    expect(stderr).toContain(name)
  }
})

test('no secret of the environment is in any line that it writes', async () => {
  const secret = 'pl_verysecretkey123'
  const server = await holdingServer()
  const MONITORS_FILE = await monitorsFile(`${server.url}?key=${secret}`, 1)
  const agent = await start({ MONITORS_FILE, API_KEY: secret, LOG_LEVEL: 'debug' })
  await server.requests(1)
  server.held[0]?.writeHead(500).end(secret)
  await agent.line((line) => line['result'] !== undefined)
  agent.child.kill('SIGTERM')
  const { stderr } = await agent.ended
  expect(JSON.stringify(agent.lines) + stderr).not.toContain(secret)
})
