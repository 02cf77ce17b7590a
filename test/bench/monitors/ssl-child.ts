// One contender of the bench `ssl`, in a separate process. `node ssl-child.ts <kind> <port> <ca file> <count>`
// prints the cost of the checks; the kind `soak` prints memory and descriptors.
import { readdirSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { connect as connectTls, createSecureContext } from 'node:tls'
import { tmpdir } from 'node:os'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import { createRunner } from '../../../src/agent/run/runner.ts'
import { Monitor } from '../../../src/contract/monitor.ts'
import { MONITOR_TYPES } from '../../../src/monitors/registry.ts'
import { plainContext } from '../plain-context.ts'
import { memoryMiBOf } from '../process-figures.ts'

const CONCURRENCY = 8
const WARM_UP = 500

const [kind = '', portText = '', caFile = '', count = '0'] = process.argv.slice(2)
const port = Number(portText)
const ca = readFileSync(caFile, 'utf8')

/** The minimal handshake in Node: a fresh connection that is verified. */
function bare(): () => Promise<void> {
  const secureContext = createSecureContext({ ca })
  return () =>
    new Promise((resolve, reject) => {
      const socket = connect(port, '127.0.0.1')
      const secure = connectTls({ socket, secureContext, servername: 'localhost' }, () => {
        secure.getPeerX509Certificate()
        secure.destroy()
        resolve()
      })
      secure.on('error', reject)
    })
}

/** The agent's whole path from a job to a scrubbed result. */
function throughRunner(): () => Promise<void> {
  const runner = createRunner({
    types: MONITOR_TYPES,
    clock: createClock(),
    workRoot: tmpdir(),
    scrubHeaders: [],
  })
  const request = { sslConfig: { hostname: 'localhost', port }, tls: { ca } }
  const monitor = Monitor.parse({ id: 'bench', name: 'bench', checkType: 'SSL', request })
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

const once = kind === 'bare' ? bare() : throughRunner()

async function runMany(many: number): Promise<void> {
  let left = many
  const worker = async () => {
    while (left-- > 0) await once()
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
}

function resourcesNow(): { memoryMiB: number; descriptors: number } {
  globalThis.gc?.()
  return {
    memoryMiB: Math.round(memoryMiBOf(process.pid).now),
    descriptors: readdirSync('/proc/self/fd').length,
  }
}

if (kind === 'soak') {
  await runMany(Number(count) / 10)
  const before = resourcesNow()
  await runMany((Number(count) * 9) / 10)
  process.stdout.write(JSON.stringify([before, resourcesNow()]))
} else {
  await runMany(WARM_UP)
  const before = process.cpuUsage()
  await runMany(Number(count))
  const { user, system } = process.cpuUsage(before)
  process.stdout.write(String((user + system) / 1000))
}
