// One contender of a bench of monitors, in a process of its own: runs `count` checks with a fixed concurrency and
// prints their figures as JSON. `node child.ts <cost|soak|observe> <contender as JSON> <count>`.
import { readdirSync } from 'node:fs'
import { get } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { connect as connectTls, createSecureContext } from 'node:tls'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import { createRunner } from '../../../src/agent/run/runner.ts'
import { Monitor } from '../../../src/contract/monitor.ts'
import type { Result } from '../../../src/contract/result.ts'
import { MONITOR_TYPES } from '../../../src/monitors/registry.ts'
import { plainContext } from '../plain-context.ts'
import { memoryMiBOf } from '../process-figures.ts'
import { CONCURRENCY, type Contender, type Resources } from './contenders.ts'

const WARM_UP = 500

/** The agent's whole path from a job to a scrubbed result, which must have passed. */
function throughRunner(definition: object): () => Promise<Result> {
  const runner = createRunner({
    types: MONITOR_TYPES,
    clock: createClock(),
    workRoot: tmpdir(),
    scrubHeaders: [],
  })
  const monitor = Monitor.parse({ id: 'bench', name: 'bench', ...definition })
  const { dial } = plainContext()
  const locationContext = { location: 'bench', variables: [], dial, secrets: [] }
  const { signal } = new AbortController()
  return async () => {
    const result = await runner.run({ monitor, slot: Date.now() }, locationContext, signal)
    if (result.verdict !== 'passed') throw new Error(JSON.stringify(result.failures))
    return result
  }
}

/** The minimal check in Node.js, on a fresh connection. */
type Bare = (
  resolve: () => void,
  reject: (error: Error) => void,
  to: { port: number; ca: string },
) => void

const BARE: Record<string, Bare> = {
  http(resolve, reject, { port }) {
    get(`http://127.0.0.1:${port}/json`, { agent: false }, (response) => {
      if (response.statusCode !== 200) reject(new Error(`status ${response.statusCode}`))
      response.on('data', () => undefined).on('end', resolve)
    }).on('error', reject)
  },
  tcp(resolve, reject, { port }) {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve()
    }).on('error', reject)
  },
  /** A verified handshake. */
  tls(resolve, reject, { port, ca }) {
    secureContext ??= createSecureContext({ ca })
    const socket = connect(port, '127.0.0.1')
    const secure = connectTls({ socket, secureContext, servername: 'localhost' }, () => {
      secure.getPeerX509Certificate()
      secure.destroy()
      resolve()
    }).on('error', reject)
  },
}
let secureContext: ReturnType<typeof createSecureContext> | undefined

async function runMany(many: number): Promise<void> {
  let left = many
  const worker = async () => {
    while (left-- > 0) await run()
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
}

/** CPU time of all checks after a warm-up. Milliseconds. */
async function cost(): Promise<number> {
  await runMany(Math.min(WARM_UP, count))
  const before = process.cpuUsage()
  await runMany(count)
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}

function resourcesNow(): Resources {
  globalThis.gc?.()
  return {
    memoryMiB: Math.round(memoryMiBOf(process.pid).now),
    heapMiB: Math.round(process.memoryUsage().heapUsed / 2 ** 20),
    descriptors: readdirSync('/proc/self/fd').length,
  }
}

/** Resources after a tenth of the checks, and at their end. */
async function soak(): Promise<[Resources, Resources]> {
  await runMany(count / 10)
  const early = resourcesNow()
  await runMany((count * 9) / 10)
  return [early, resourcesNow()]
}

const [what = '', text = '', countText = '0'] = process.argv.slice(2)
const count = Number(countText)
const contender = JSON.parse(text) as Contender
const run: () => Promise<unknown> =
  'checkType' in contender
    ? throughRunner(contender)
    : () => new Promise<void>((...ends) => BARE[contender.bare]?.(...ends, contender))

const figures = { cost, soak, observe: async () => ((await run()) as Result).observed }
process.stdout.write(JSON.stringify(await figures[what as keyof typeof figures]()))
