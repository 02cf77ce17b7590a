// Runs of API monitors with scripts as in the agent, against a server that returns the received request.
import { mkdirSync, readdirSync } from 'node:fs'
import type { IncomingHttpHeaders } from 'node:http'
import { join } from 'node:path'
import { text as textOf } from 'node:stream/consumers'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import { createRunner } from '../../../src/agent/run/runner.ts'
import type { Monitor, Variable } from '../../../src/contract/monitor.ts'
import type { Result } from '../../../src/contract/result.ts'
import { api } from '../../../src/monitors/api/index.ts'
import type { HttpObserved } from '../../../src/monitors/http/observed.ts'
import type { ApiScriptsObserved } from '../../../src/scripts/api/host.ts'
import type { ScriptHost } from '../../../src/scripts/host.ts'
import { type ContextOptions, testContext } from '../monitors/monitor-context.ts'
import { testScriptHost } from './script-host.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import { startHttpServer, type TestServer } from '../test-server.ts'

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
    void textOf(request).then((body) => {
      const { method = '', url = '', headers } = request
      received.push({ method, url, headers, body })
      const long = /long=(\d+)/.exec(url)?.[1]
      const status = Number(/status=(\d+)/.exec(url)?.[1] ?? 200)
      response.writeHead(status, { 'content-type': 'application/json', 'x-list': ['a', 'b'] })
      const filler = long === undefined ? undefined : 'x'.repeat(Number(long))
      return response.end(JSON.stringify({ method, url, body, headers, filler }))
    })
  })
  return Object.assign(server, { received, url: `http://${server.authority}` })
}

/** Options of one check. */
export interface CheckOptions extends ContextOptions {
  host?: ScriptHost | undefined
  variables?: Variable[]
  signal?: AbortSignal
  request?: Record<string, unknown>
  /** Further fields of the definition. */
  more?: Record<string, unknown>
}

/** Runs a definition with its retries; `left` are the leftovers in its work folders. */
async function runScriptedApi(
  definition: Record<string, unknown>,
  options: CheckOptions,
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
  const about = { id: 'scripted-1', name: 'A scripted check', checkType: 'API' }
  const monitor = api.schema.parse({ ...about, ...definition }) as Monitor
  const { dial } = testContext(options)
  const { variables = [], signal = new AbortController().signal } = options
  const around = { location: 'home', variables, dial, secrets: [] }
  const result = await runner.run({ monitor, slot: 1 }, around, signal)
  return {
    ...result,
    scripted: result.observed as unknown as ScriptedObserved,
    codes: result.failures.map(({ code }) => code),
    left: readdirSync(workRoot),
  }
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
      const before = server.received.length
      const definition = {
        request: { method: 'GET', url: `${server.url}/a?b=1`, ...options.request },
        localSetupScript: setUp.replaceAll('{server}', server.url),
        localTearDownScript: tearDown.replaceAll('{server}', server.url),
        ...options.more,
      }
      const result = await runScriptedApi(definition, { host, ...options })
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
