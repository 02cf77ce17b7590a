// Fault reports of the real program: their receivers, their content, and that nothing is loaded or sent without
// a receiver.
import { randomUUID } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { createDsnPoster } from '../../src/agent/platform/envelope-poster.ts'
import { VERSION } from '../../src/contract/versions.ts'
import { eventOf } from '../../src/process/faults/event.ts'
import { parseDsn, type SentryDsn } from '../../src/process/faults/sentry-dsn.ts'
import {
  startAgentProcess,
  type AgentProcess,
  type StartedAgent,
} from '../support/agent/agent-process.ts'
import { createAuthority } from '../support/network/certificates.ts'
import { startConnectProxy } from '../support/network/connect-proxy.ts'
import {
  DSN_KEY,
  startEnvelopeReceiver,
  type EnvelopeReceiver,
} from '../support/agent/envelope-receiver.ts'
import { startFakePlatform } from '../support/agent/fake-platform.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { startHttpServer } from '../support/test-server.ts'

const open: { close(): unknown }[] = []
const agents: AgentProcess[] = []
afterEach(async () => {
  for (const { child } of agents.splice(0)) child.kill('SIGKILL')
  await Promise.all(open.splice(0).map((one) => one.close()))
})

/** A secret that no report may contain; every input of the agent has one. */
const secret = (what: string) => `quokka${what}${randomUUID().replaceAll('-', '')}`

interface Watched extends StartedAgent {
  /** Modules of the program that it has loaded, and connections that it has tried. */
  loaded(): string[]
  connections(): string[]
  secrets: string[]
  /** Makes it fail; resolves when it has ended. */
  fail(): Promise<{ code: number | null; ms: number }>
}

async function receiver(tls?: Parameters<typeof startEnvelopeReceiver>[0]) {
  const one = await startEnvelopeReceiver(tls)
  open.push(one)
  return one
}

/** An agent on a file with one monitor, watched, with secrets in all that it has. */
async function watched(env: Record<string, string> = {}): Promise<Watched> {
  const folder = temporaryFolder()
  const [header, variable, path, other] = ['Header', 'Variable', 'Path', 'Other'].map(secret)
  const server = await startHttpServer((_, response) => void response.end(secret('Body')))
  open.push(server)
  const url = `http://${server.authority}/${path}`
  writeFileSync(
    join(folder, 'monitors.yaml'),
    `monitors:\n  - {name: One, type: API, every: 1s, request: {method: GET, url: '${url}', headers: [{key: X-Api-Key, value: ${header}}, {key: X-Own, value: '{{OWN}}'}]}}\nvariables:\n  - {key: OWN, value: ${variable}, secret: true}\n`,
  )
  const log = join(folder, 'watched')
  writeFileSync(log, '')
  const secrets = [header, variable, path, other, server.authority, folder] as string[]
  const watch = new URL('../support/watched-process.ts', import.meta.url).href
  const agent = await startAgentProcess({
    MONITORS_FILE: join(folder, 'monitors.yaml'),
    NODE_OPTIONS: `--import ${watch}`,
    WATCHED_FILE: log,
    WATCHED_TEXT: `(reading '${secrets.join(' ')}') ${secrets.join(' ')}`,
    SOME_PASSWORD: other as string,
    ...env,
  })
  agents.push(agent)
  await agent.line(
    ({ result }) => (result as { verdict?: string } | undefined)?.verdict === 'passed',
  )
  const lines = (kind: string) =>
    readFileSync(log, 'utf8')
      .split('\n')
      .filter((line) => line.startsWith(kind))
  return {
    ...agent,
    secrets,
    loaded: () => lines('load ').filter((line) => line.includes('/src/')),
    connections: () =>
      [...new Set(lines('connect '))].filter((one) => !one.endsWith(`:${server.port}`)),
    async fail() {
      const began = performance.now()
      agent.child.kill('SIGUSR2')
      const { code } = await agent.ended
      return { code, ms: performance.now() - began }
    },
  }
}

/** Modules that report faults; the first fault loads them. */
const REPORTERS = /\/(faults\/(event|sentry-envelope)|envelope-poster)\.ts$/

function expectNothingPlanted(at: EnvelopeReceiver, { secrets }: Watched): void {
  const bytes = at.bytes()
  expect(bytes.length).toBeGreaterThan(300)
  for (const one of secrets) expect(bytes).not.toContain(one)
  expect(bytes).not.toMatch(/quokka/i)
}

describe('nothing is loaded and nothing sent', () => {
  test.each([
    ['with EXTERNAL_OBSERVABILITY=off', true, { EXTERNAL_OBSERVABILITY: 'off' }],
    ['on a monitors file, without SENTRY_DSN', false, {}],
  ])('%s', async (_, hasDsn, env) => {
    const at = await receiver()
    const agent = await watched(hasDsn ? { ...env, SENTRY_DSN: at.dsn } : env)
    expect((await agent.fail()).code).toBe(1)
    expect(agent.loaded().length).toBeGreaterThan(50)
    expect(agent.loaded().filter((one) => REPORTERS.test(one))).toEqual([])
    expect(agent.connections()).toEqual([])
    expect(at.bytes()).toBe('')
    const metrics = agent.lines.some(({ msg }) => msg?.includes('a fault of the program itself'))
    expect(metrics).toBe(true)
  })
})

describe('a fault that ends the agent', () => {
  test('is reported to SENTRY_DSN, by a sender that is loaded only then', async () => {
    const at = await receiver()
    const agent = await watched({ SENTRY_DSN: at.dsn })
    const metrics = await (await fetch(`${agent.url}/metrics`)).text()
    expect(metrics).toContain('vedette_fault_reports_total{outcome="sent"} 0')
    expect(agent.loaded().filter((one) => REPORTERS.test(one))).toEqual([])
    expect(agent.connections()).toEqual([])
    expect((await agent.fail()).code).toBe(1)
    const { url, headers, event } = await at.event()
    expect(url).toBe('/api/7/envelope/')
    expect(headers['x-sentry-auth']).toContain(`sentry_key=${DSN_KEY}`)
    expect(headers).not.toHaveProperty('authorization')
    expect(event).toMatchObject({
      level: 'fatal',
      release: `vedette-agent@${VERSION}`,
      exception: { values: [{ type: 'Error' }, { type: 'TypeError' }] },
    })
    expect(event.exception.values[1]?.value).toBe('')
    expect(event.exception.values[1]?.stacktrace?.frames.at(-1)).toMatchObject({
      filename: 'test/support/watched-process.ts',
    })
    expect(agent.connections()).toEqual([`connect ${at.authority}`])
    expectNothingPlanted(at, agent)
  })

  test('does not wait for a receiver that hangs, nor change the exit code', async () => {
    const at = await receiver()
    at.answer = undefined
    const agent = await watched({ SENTRY_DSN: at.dsn })
    const asked = at.request()
    const { code, ms } = await agent.fail()
    await asked
    expect(code).toBe(1)
    expect(ms).toBeLessThan(5000)
  })
})

test('reports go through the proxy, with an authority of one’s own', async () => {
  const authority = createAuthority()
  const at = await receiver(authority.issue())
  const proxy = await startConnectProxy({ credentials: 'user:p@ss' })
  open.push(proxy)
  const event = eventOf(new Error('x'), 'vedette-agent@8.4.0')
  const dsn = parseDsn(at.dsn) as SentryDsn
  const way = { proxyUrl: `http://user:p%40ss@${proxy.authority}`, ca: authority.ca }
  const through = await createDsnPoster(dsn, way).take(event, 20_000)
  expect([through.status, at.received.length, proxy.requestLines]).toEqual([
    200,
    1,
    [`CONNECT ${at.authority}`],
  ])
  const direct = { ...way, noProxy: ['127.0.0.0/8'] }
  expect((await createDsnPoster(dsn, direct).take(event, 20_000)).status).toBe(200)
  expect([at.received.length, proxy.requestLines.length]).toEqual([2, 1])
  // Nobody vouches for it.
  const strange = createDsnPoster(dsn, { noProxy: ['*'] }).take(event, 20_000)
  await expect(strange).rejects.toMatchObject({ code: 'TLS' })
})

test('an agent for a platform reports to the platform, with its key and its id', async () => {
  const API_KEY = `pl_${secret('Key')}`
  const platform = await startFakePlatform()
  open.push(platform)
  const folder = temporaryFolder()
  const log = join(folder, 'watched')
  writeFileSync(log, '')
  const agent = await startAgentProcess({
    API_KEY,
    PLATFORM_URL: platform.url,
    DATA_DIR: folder,
    NODE_OPTIONS: `--import ${new URL('../support/watched-process.ts', import.meta.url).href}`,
    WATCHED_FILE: log,
  })
  agents.push(agent)
  const said = await platform.sync(() => true)
  agent.child.kill('SIGUSR2')
  expect((await agent.ended).code).toBe(1)
  const [one] = platform.envelopes
  expect(platform.envelopes).toHaveLength(1)
  expect(one?.path).toBe(`/agent/v1/api/${said.agent.id}/envelope/`)
  expect(one?.key).toBe(`Bearer ${API_KEY}`)
  expect(one?.text).toContain('"level":"fatal"')
  expect(one?.text).not.toMatch(/quokka/i)
})
