// One contender of the bench `grpc`, in a separate process: runs `count` checks of a port with a fixed concurrency
// and prints their cost. `node grpc-child.ts <kind> <port> <count>`; `soak` prints memory and descriptors.
import { connect } from 'node:http2'
import { cpuCostMs, type Once, soak, throughRunner } from './contender.ts'

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

/** The agent's whole path. */
function ours(port: number, grpcConfig: Record<string, unknown>): Once {
  const request = { url: '127.0.0.1', port, grpcConfig: { tls: false, ...grpcConfig } }
  return throughRunner({ checkType: 'GRPC', request })
}

function contender(kind: string, port: number): Once {
  const call = { method: 'shop.v1.Shop/Greet', message: '{"name": "Ann"}' }
  switch (kind) {
    case 'bare':
      return () => bareHttp2(port)
    case 'health':
    case 'soak':
      return ours(port, { mode: 'HEALTH' })
    case 'call':
    case 'soak-call':
      return ours(port, call)
    default:
      throw new Error(`no contender ${kind}`)
  }
}

const [kind = '', port = '0', count = '0'] = process.argv.slice(2)
const once = contender(kind, Number(port))

const figures = kind.startsWith('soak') ? soak(once, Number(count)) : cpuCostMs(once, Number(count))
process.stdout.write(JSON.stringify(await figures))
