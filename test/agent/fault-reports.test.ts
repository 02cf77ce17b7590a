// Fault reports of the real program: receivers and content; without a receiver nothing is loaded or sent.
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createDsnPoster } from '../../src/agent/platform/envelope-poster.ts'
import { VERSION } from '../../src/contract/versions.ts'
import { eventOf } from '../../src/process/faults/event.ts'
import { parseDsn, type SentryDsn } from '../../src/process/faults/sentry-dsn.ts'
import { startAgentProcess, type StartedAgent } from '../support/agent/agent-process.ts'
import { eventually } from '../support/eventually.ts'
import { createAuthority, type KeyPair } from '../support/network/certificates.ts'
import { startConnectProxy } from '../support/network/connect-proxy.ts'
import {
  DSN_KEY,
  startEnvelopeReceiver,
  type EnvelopeReceiver,
} from '../support/agent/envelope-receiver.ts'
import { startFakePlatform } from '../support/agent/fake-platform.ts'
import { temporaryFile, temporaryFolder } from '../support/temporary-folder.ts'
import { startHttpServer } from '../support/test-server.ts'

/** Closes it at the end of the test. */
function opened<T extends { close(): unknown }>(one: T): T {
  onTestFinished(() => void one.close())
  return one
}

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

const receiver = async (tls?: KeyPair) => opened(await startEnvelopeReceiver(tls))

/** What makes a process record what it does, and fail on SIGUSR2. */
function watching() {
  const path = temporaryFile('watched', '')
  const watch = new URL('../support/watched-process.ts', import.meta.url).href
  return { path, env: { NODE_OPTIONS: `--import ${watch}`, WATCHED_FILE: path } }
}

/** An agent on a file with one monitor, watched, with secrets in all that it has. */
async function watched(env: Record<string, string> = {}): Promise<Watched> {
  const [header, variable, path, other] = ['Header', 'Variable', 'Path', 'Other'].map(secret)
  const server = opened(await startHttpServer((_, response) => void response.end(secret('Body'))))
  const url = `http://${server.authority}/${path}`
  const file = temporaryFile(
    'monitors.yaml',
    `monitors:\n  - {name: One, type: API, every: 1s, request: {method: GET, url: '${url}', headers: [{key: X-Api-Key, value: ${header}}, {key: X-Own, value: '{{OWN}}'}]}}\nvariables:\n  - {key: OWN, value: ${variable}, secret: true}\n`,
  )
  const secrets = [header, variable, path, other, server.authority, dirname(file)] as string[]
  const watch = watching()
  const agent = await startAgentProcess({
    MONITORS_FILE: file,
    WATCHED_TEXT: `(reading '${secrets.join(' ')}') ${secrets.join(' ')}`,
    SOME_PASSWORD: other as string,
    ...watch.env,
    ...env,
  })
  await eventually(() => agent.results().some(({ verdict }) => verdict === 'passed'))
  const lines = (kind: string) =>
    readFileSync(watch.path, 'utf8')
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
      const { code } = await agent.stop('SIGUSR2')
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

test.each([
  ['with EXTERNAL_OBSERVABILITY=off', true, { EXTERNAL_OBSERVABILITY: 'off' }],
  ['on a monitors file, without SENTRY_DSN', false, {}],
])('nothing is loaded and nothing sent %s', async (_, hasDsn, env) => {
  const at = await receiver()
  const agent = await watched(hasDsn ? { ...env, SENTRY_DSN: at.dsn } : env)
  expect((await agent.fail()).code).toBe(1)
  expect(agent.loaded().length).toBeGreaterThan(50)
  expect(agent.loaded().filter((one) => REPORTERS.test(one))).toEqual([])
  expect(agent.connections()).toEqual([])
  expect(at.bytes()).toBe('')
  const isSaid = agent.lines.some(({ msg }) => msg?.includes('a fault of the program itself'))
  expect(isSaid).toBe(true)
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
  const proxy = opened(await startConnectProxy({ credentials: 'user:p@ss' }))
  const event = eventOf(new Error('x'), 'vedette-agent@8.4.0')
  const dsn = parseDsn(at.dsn) as SentryDsn
  const way = { proxyUrl: `http://user:p%40ss@${proxy.authority}`, ca: authority.ca }
  const through = await createDsnPoster(dsn, way).take(event, 20_000)
  expect([through.status, at.received.length]).toEqual([200, 1])
  expect(proxy.requestLines).toEqual([`CONNECT ${at.authority}`])
  const direct = { ...way, noProxy: ['127.0.0.0/8'] }
  expect((await createDsnPoster(dsn, direct).take(event, 20_000)).status).toBe(200)
  expect([at.received.length, proxy.requestLines.length]).toEqual([2, 1])
  // Nobody vouches for it.
  const strange = createDsnPoster(dsn, { noProxy: ['*'] }).take(event, 20_000)
  await expect(strange).rejects.toMatchObject({ code: 'TLS' })
})

test('an agent for a platform reports to the platform, with its key and its id', async () => {
  const API_KEY = `pl_${secret('Key')}`
  const platform = opened(await startFakePlatform())
  const agent = await startAgentProcess({
    API_KEY,
    PLATFORM_URL: platform.url,
    DATA_DIR: temporaryFolder(),
    ...watching().env,
  })
  const said = await platform.sync(() => true)
  expect((await agent.stop('SIGUSR2')).code).toBe(1)
  expect(platform.envelopes).toEqual([
    {
      path: `/agent/v1/api/${said.agent.id}/envelope/`,
      key: `Bearer ${API_KEY}`,
      text: expect.stringContaining('"level":"fatal"'),
    },
  ])
  expect(platform.envelopes[0]?.text).not.toMatch(/quokka/i)
})
