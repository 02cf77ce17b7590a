// The real process and its signals, a log reader that disconnects, and secrets of its environment.
import { writeFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { expect, onTestFinished, test } from 'vitest'
import { launchAgentProcess, startAgentProcess } from '../support/agent/agent-process.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFile } from '../support/temporary-folder.ts'
import { startHttpServer } from '../support/test-server.ts'

/** A server whose requests are answered by hand. */
async function holdingServer() {
  const held: ServerResponse[] = []
  const server = await startHttpServer((_, response) => void held.push(response))
  onTestFinished(() => server.close())
  return {
    url: `http://${server.authority}/`,
    held,
    requests: (count: number) => eventually(() => held.length >= count),
  }
}

function monitorsFile(url: string, count = 3): string {
  const monitors = Array.from(
    { length: count },
    (_, n) =>
      `  - {id: m${n}, name: monitor ${n}, type: URL, every: 1d, maxResponseTime: 30000, request: {url: "${url}"}}`,
  )
  return temporaryFile('monitors.yaml', `monitors:\n${monitors.join('\n')}\n`)
}

/** An agent whose monitors wait for a server. */
async function waiting() {
  const server = await holdingServer()
  const MONITORS_FILE = monitorsFile(server.url)
  const agent = await startAgentProcess({ MONITORS_FILE })
  await server.requests(3)
  return { server, agent, MONITORS_FILE }
}

test.each([
  ['SIGTERM', 143],
  ['SIGINT', 130],
] as const)('a second signal while jobs run, %s, ends it at once with %i', async (signal, code) => {
  const { agent } = await waiting()
  agent.child.kill('SIGTERM')
  await agent.line(({ msg }) => msg === 'stop signal received')
  expect(await agent.stop(signal)).toMatchObject({ code })
})

test('SIGHUP reads the file again; a bad one leaves the monitors running', async () => {
  const { agent, MONITORS_FILE } = await waiting()
  await writeFile(MONITORS_FILE, 'monitors: [{nome: x}]\n')
  agent.child.kill('SIGHUP')
  await agent.line(({ level }) => level === 'error')
  const readiness = await fetch(`${agent.url}/-/readiness`)
  expect(readiness.status).toBe(200)
  expect(await readiness.text()).toContain('monitors.yaml:1')
})

/** An agent that listens to signals, and whose file takes long to read. */
async function reading() {
  const MONITORS_FILE = monitorsFile('http://127.0.0.1:9/', 3000)
  const agent = launchAgentProcess({ MONITORS_FILE, API_KEY: 'pl_verysecretkey123' })
  // Of the key: it is logged when the signals are listened to.
  await agent.line(({ level }) => level === 'warn')
  return agent
}

test('SIGHUP while the file is read for the first time ends nothing', async () => {
  const agent = await reading()
  agent.child.kill('SIGHUP')
  expect(await agent.line(({ msg }) => msg === 'agent started')).toMatchObject({ level: 'info' })
  await agent.stop('SIGKILL')
})

test('SIGTERM while the file is read for the first time ends it, with exit 0', async () => {
  const agent = await reading()
  expect(await agent.stop()).toEqual({ code: 0, signal: null, stderr: '' })
})

test('a log reader that disconnects ends nothing', async () => {
  const { server, agent } = await waiting()
  agent.child.stdout?.destroy()
  agent.child.stderr?.destroy()
  for (const response of server.held) response.end('nobody reads of it')
  expect((await fetch(`${agent.url}/-/readiness`)).status).toBe(200)
  expect(await agent.stop()).toMatchObject({ code: 0 })
})

test('no secret of the environment is in any line that it writes', async () => {
  const secret = 'pl_verysecretkey123'
  const server = await holdingServer()
  const MONITORS_FILE = monitorsFile(`${server.url}?key=${secret}`, 1)
  const agent = await startAgentProcess({ MONITORS_FILE, API_KEY: secret, LOG_LEVEL: 'debug' })
  await server.requests(1)
  server.held[0]?.writeHead(500).end(secret)
  await eventually(() => agent.results().length > 0)
  const { stderr } = await agent.stop()
  expect(JSON.stringify(agent.lines) + stderr).not.toContain(secret)
})
