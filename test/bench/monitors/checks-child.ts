// One contender of the bench `checks`, in a separate process: runs `count` checks of an address with a fixed
// concurrency and prints their cost. `node checks-child.ts <kind> <url> <count>`.
import { get } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import { createRunner } from '../../../src/agent/run/runner.ts'
import { Monitor } from '../../../src/contract/monitor.ts'
import { MONITOR_TYPES } from '../../../src/monitors/registry.ts'
import { plainContext } from '../plain-context.ts'

const CONCURRENCY = 8
const WARM_UP = 500

/** The minimal check in Node: a fresh connection, and the body read. */
function bareHttp(url: URL): Promise<void> {
  return new Promise((resolve, reject) => {
    get(url, { agent: false }, (response) => {
      if (response.statusCode !== 200) reject(new Error(`status ${response.statusCode}`))
      response.on('data', () => undefined).on('end', resolve)
    }).on('error', reject)
  })
}

function bareTcp(url: URL): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(url.port), url.hostname, () => {
      socket.destroy()
      resolve()
    }).on('error', reject)
  })
}

/** The agent's whole path from a job to a scrubbed result. */
function throughRunner(definition: Record<string, unknown>): () => Promise<void> {
  const runner = createRunner({
    types: MONITOR_TYPES,
    clock: createClock(),
    workRoot: tmpdir(),
    scrubHeaders: [],
  })
  const monitor = Monitor.parse({ id: 'bench', name: 'bench', ...definition })
  const locationContext = {
    location: 'bench',
    variables: [],
    dial: plainContext().dial,
    secrets: [],
  }
  const { signal } = new AbortController()
  return async () => {
    const result = await runner.run({ monitor, slot: Date.now() }, locationContext, signal)
    if (result.verdict !== 'passed') throw new Error(JSON.stringify(result.failures))
  }
}

function contender(kind: string, url: URL): () => Promise<void> {
  const statusIs200 = [{ source: 'STATUS_CODE', comparison: 'EQUALS', target: '200' }]
  const json = [
    ...statusIs200,
    { source: 'JSON_BODY', property: '$.status', comparison: 'EQUALS', target: 'ok' },
  ]
  switch (kind) {
    case 'bare-http':
      return () => bareHttp(url)
    case 'bare-tcp':
      return () => bareTcp(url)
    case 'url':
      return throughRunner({
        checkType: 'URL',
        request: { url: url.href, assertions: statusIs200 },
      })
    case 'api':
      return throughRunner({
        checkType: 'API',
        request: { method: 'GET', url: url.href, assertions: json },
      })
    case 'tcp':
      return throughRunner({
        checkType: 'TCP',
        request: { hostname: url.hostname, port: Number(url.port) },
      })
    default:
      throw new Error(`no contender ${kind}`)
  }
}

const [kind = '', address = '', count = '0'] = process.argv.slice(2)
const once = contender(kind, new URL(address))

async function runMany(many: number): Promise<void> {
  let left = many
  const worker = async () => {
    while (left-- > 0) await once()
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
}

await runMany(WARM_UP)
const before = process.cpuUsage()
await runMany(Number(count))
const { user, system } = process.cpuUsage(before)
process.stdout.write(`${(user + system) / 1000}\n`)
