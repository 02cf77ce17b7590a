// gRPC checks per CPU-second, side by side with a bare node:http2 loop and with blackbox_exporter, in turn on
// the same server; then memory and descriptors over 100,000 health checks.
import { startExporter } from '../../support/monitors/blackbox-exporter.ts'
import { startGrpcServer } from '../../support/monitors/grpc/grpc-server.ts'
import { markdownTable } from '../table.ts'
import { compare, cpuMs, exporterCpuMs, soakText } from './contenders.ts'

const ROUNDS = 3
const CHECKS = 2000

const MODULE = `
  grpc: { prober: grpc, timeout: 5s, grpc: { preferred_ip_protocol: ip4 } }
`

/** Prints checks per CPU-second, the median of the rounds, and memory after a long run. */
export async function benchGrpc(): Promise<void> {
  const server = await startGrpcServer()
  const { port } = server
  const exporter = await startExporter(MODULE)
  const monitor = (grpcConfig: object) => ({
    checkType: 'GRPC',
    request: { url: '127.0.0.1', port, grpcConfig: { tls: false, ...grpcConfig } },
  })
  const health = monitor({ mode: 'HEALTH' })
  const call = monitor({ method: 'shop.v1.Shop/Greet', message: '{"name": "Ann"}' })
  const contenders: Record<string, () => Promise<number>> = {
    'bare node:http2 loop': () => cpuMs({ bare: 'http2', port, ca: '' }, CHECKS),
    'Vedette gRPC, health': () => cpuMs(health, CHECKS),
    'Vedette gRPC, a call by reflection': () => cpuMs(call, CHECKS),
    'blackbox_exporter grpc': () => exporterCpuMs(exporter, 'grpc', `127.0.0.1:${port}`, CHECKS),
  }
  const { perSecond, ratio } = await compare(Object.values(contenders), CHECKS, ROUNDS)
  const rows = Object.keys(contenders).map((name, at) => {
    const ofBare = `${Math.round(ratio(at, 0) * 100)} %`
    return [name, perSecond(at), ofBare, `${ratio(at, -1).toFixed(1)} ×`]
  })
  const head = ['contender', 'checks per CPU-second', 'of the bare loop', 'of the exporter']
  process.stdout.write(`${markdownTable([head, ...rows])}\n\n`)
  await exporter.close()
  process.stdout.write(await soakText('health checks', health))
  await server.close()
}
