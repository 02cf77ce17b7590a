// One contender of the bench `grpc`, in a separate process: runs `count` checks of a port with a fixed concurrency
// and prints their cost. `node grpc-child.ts <kind> <port> <count>`; `soak` prints memory and descriptors after a
// tenth of the checks and at the end.
import { readdirSync } from 'node:fs'
import { connect } from 'node:http2'
import { tmpdir } from 'node:os'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import { createRunner } from '../../../src/agent/run/runner.ts'
import { Monitor } from '../../../src/contract/monitor.ts'
import { MONITOR_TYPES } from '../../../src/monitors/registry.ts'
import { plainContext } from '../plain-context.ts'
import { memoryMiBOf } from '../process-figures.ts'

const CONCURRENCY = 8
const WARM_UP = 500
const EMPTY_MESSAGE = Buffer.alloc(5)

/** The minimal health check in Node: a fresh connection, one stream, its answer thrown away. */
function bareHttp2(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const session = connect(`http://127.0.0.1:${port}`).on('error', reject)
    const stream = session.request({
      ':method': 'POST',
      ':path': '/grpc.health.v1.Health/Check',
      'content-type': 'application/grpc',
      te: 'trailers',
    })
    stream.on('data', () => undefined).on('error', reject)
    let status: string | undefined
    stream.on('trailers', (trailers) => (status = String(trailers['grpc-status'])))
    stream.on('end', () => {
      session.destroy()
      if (status === '0') resolve()
      else reject(new Error(`grpc-status ${status}`))
    })
    stream.end(EMPTY_MESSAGE)
  })
}

/** The agent's whole path from a job to a scrubbed result. */
function throughRunner(port: number, grpcConfig: Record<string, unknown>): () => Promise<void> {
  const runner = createRunner({
    types: MONITOR_TYPES,
    clock: createClock(),
    workRoot: tmpdir(),
    scrubHeaders: [],
  })
  const request = { url: '127.0.0.1', port, grpcConfig: { tls: false, ...grpcConfig } }
  const monitor = Monitor.parse({ id: 'bench', name: 'bench', checkType: 'GRPC', request })
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

function contender(kind: string, port: number): () => Promise<void> {
  const call = { method: 'shop.v1.Shop/Greet', message: '{"name": "Ann"}' }
  switch (kind) {
    case 'bare':
      return () => bareHttp2(port)
    case 'health':
    case 'soak':
      return throughRunner(port, { mode: 'HEALTH' })
    case 'call':
    case 'soak-call':
      return throughRunner(port, call)
    default:
      throw new Error(`no contender ${kind}`)
  }
}

const [kind = '', port = '0', count = '0'] = process.argv.slice(2)
const once = contender(kind, Number(port))

async function runMany(many: number): Promise<void> {
  let left = many
  const worker = async () => {
    while (left-- > 0) await once()
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
}

function figures(): { mebibytes: number; descriptors: number } {
  return {
    mebibytes: memoryMiBOf(process.pid).now,
    descriptors: readdirSync('/proc/self/fd').length,
  }
}

await runMany(WARM_UP)
if (kind.startsWith('soak')) {
  await runMany(Number(count) / 10)
  const early = figures()
  await runMany(Number(count) * 0.9)
  process.stdout.write(JSON.stringify({ early, late: figures() }))
} else {
  const before = process.cpuUsage()
  await runMany(Number(count))
  const { user, system } = process.cpuUsage(before)
  process.stdout.write(`${(user + system) / 1000}\n`)
}
