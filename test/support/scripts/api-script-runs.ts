// Runs of API monitors with scripts as in the agent, against a server that returns the received request.
import { mkdirSync, readdirSync } from 'node:fs'
import type { IncomingHttpHeaders } from 'node:http'
import { join } from 'node:path'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import { createRunner } from '../../../src/agent/run/runner.ts'
import type { Monitor, Variable } from '../../../src/contract/monitor.ts'
import type { Result } from '../../../src/contract/result.ts'
import { api } from '../../../src/monitors/api/index.ts'
import type { HttpObserved } from '../../../src/monitors/http/observed.ts'
import type { ApiScriptsObserved } from '../../../src/scripts/api/observed.ts'
import type { ScriptHost } from '../../../src/scripts/host.ts'
import { type ContextOptions, testContext } from '../monitors/monitor-context.ts'
import { testScriptHost } from './script-host.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import { startHttpServer, type TestServer } from '../test-server.ts'

/** A request that the server received. */
/** The observation of an API monitor with scripts. */
type ScriptedObserved = HttpObserved & { scripts?: ApiScriptsObserved }

interface Received {
  method: string
  url: string
  headers: IncomingHttpHeaders
  body: string
}

/** A server that answers with the received request, as JSON. */
async function startTeller(): Promise<TestServer & { received: Received[]; url: string }> {
  const received: Received[] = []
  const server = await startHttpServer((request, response) => {
    let body = ''
    request.on('data', (chunk: Buffer) => (body += chunk.toString()))
    request.on('end', () => {
      const { method = '', url = '', headers } = request
      received.push({ method, url, headers, body })
      const long = /long=(\d+)/.exec(url)?.[1]
      response.setHeader('content-type', 'application/json')
      response.setHeader('x-list', ['a', 'b'])
      response.statusCode = Number(/status=(\d+)/.exec(url)?.[1] ?? 200)
      const filler = long === undefined ? undefined : 'x'.repeat(Number(long))
      response.end(JSON.stringify({ method, url, body, headers, filler }))
    })
  })
  return Object.assign(server, { received, url: `http://${server.authority}` })
}

interface ApiScriptOptions extends ContextOptions {
  host: ScriptHost | undefined
  variables?: Variable[]
  signal?: AbortSignal
}

/** Runs a definition with its retries; `left` are the leftovers in its work folders. */
async function runScriptedApi(
  definition: Record<string, unknown>,
  options: ApiScriptOptions,
): Promise<Result & { scripted: ScriptedObserved; codes: string[]; left: string[] }> {
  const workRoot = join(temporaryFolder(), 'work')
  mkdirSync(workRoot)
  const runner = createRunner({
    types: new Map([['API', api]]),
    clock: createClock(),
    workRoot,
    scrubHeaders: [],
    scripts: options.host,
  })
  const monitor = api.schema.parse({
    id: 'scripted-1',
    name: 'A scripted check',
    checkType: 'API',
    ...definition,
  }) as Monitor
  const around = {
    location: 'home',
    variables: options.variables ?? [],
    dial: testContext(options).dial,
    secrets: [],
  }
  const never = new AbortController().signal
  const result = await runner.run({ monitor, slot: 1 }, around, options.signal ?? never)
  return {
    ...result,
    scripted: result.observed as unknown as ScriptedObserved,
    codes: result.failures.map(({ code }) => code),
    left: readdirSync(workRoot),
  }
}

/** Options of one check. */
export interface CheckOptions extends Partial<ApiScriptOptions> {
  request?: Record<string, unknown>
  /** Further fields of the definition. */
  more?: Record<string, unknown>
}

/** Starts the requirements of scripted checks. `{server}` in a script is replaced by the server's address. */
export async function startScriptedChecks() {
  const host = testScriptHost()
  const server = await startTeller()
  return {
    server,
    close: async () => {
      host.close()
      await server.close()
    },
    run: async (setUp: string, tearDown = '', options: CheckOptions = {}) => {
      const { request, more, ...rest } = options
      const before = server.received.length
      const result = await runScriptedApi(
        {
          request: { method: 'GET', url: `${server.url}/a?b=1`, ...request },
          localSetupScript: setUp.replaceAll('{server}', server.url),
          localTearDownScript: tearDown.replaceAll('{server}', server.url),
          ...more,
        },
        { host, ...rest },
      )
      const received = server.received.slice(before)
      const lines = result.scripted.scripts?.console.map(({ text }) => text)
      return { ...result, received, sent: received.at(-1) as Received, lines }
    },
  }
}

/** A variable of a location. */
export const variable = (key: string, value: string, secret = false): Variable => ({
  key,
  value,
  secret,
  locked: secret,
})
