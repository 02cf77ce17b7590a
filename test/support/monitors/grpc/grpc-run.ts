// Runs gRPC monitors in tests, with the deadline that the runner would set, against any port or a raw server.
import type { Socket } from 'node:net'
import { grpc } from '../../../../src/monitors/grpc/index.ts'
import type { GrpcObserved } from '../../../../src/monitors/grpc/observed.ts'
import { DeadlineReached } from '../../../../src/network/deadline.ts'
import { eventually } from '../../eventually.ts'
import { startRawServer, type TestServer } from '../../test-server.ts'
import { checkMonitor } from '../check-monitor.ts'
import type { ContextOptions } from '../monitor-context.ts'
import type { Behaviour } from '../tcp-servers.ts'

export type Options = Record<string, unknown>

/** Options of a run. */
export interface GrpcOrder {
  port: number
  /** Fields of `grpcConfig`; TLS is off. */
  config: Options
  /** Other fields of the request. */
  request?: Options
  /** Other fields of the monitor. */
  settings?: Options
  context?: ContextOptions
}

/** Runs a monitor once. */
export async function runGrpc({ port, config, request, settings, context }: GrpcOrder) {
  const grpcConfig = { tls: false, ...config }
  const fields = { url: '127.0.0.1', port, grpcConfig, ...request }
  const observation = await checkMonitor(grpc, fields, settings, context)
  return { ...observation, observed: observation.observed as Options & GrpcObserved }
}

export const HEALTH = { mode: 'HEALTH' }

/** Runs against a raw server, with a deadline `lateMs` after the connection; checks that no connection remains. */
export async function against(behave: Behaviour, config: Options = HEALTH, lateMs = 10_000) {
  const sockets: Socket[] = []
  const deadline = new AbortController()
  await using server = await startRawServer((socket) => {
    sockets.push(socket)
    setTimeout(() => deadline.abort(new DeadlineReached(lateMs)), lateMs).unref()
    behave(socket)
  })
  const context = { signal: deadline.signal }
  const observation = await runGrpc({ port: server.port, config, context })
  await closed(server, sockets)
  return observation
}

/** Waits for the end of the connections. Reads them: a paused socket would not report its end. */
export async function closed(server: TestServer, sockets: readonly Socket[]): Promise<void> {
  for (const socket of sockets) socket.resume()
  await eventually(() => server.open() === 0, { everyMs: 5 })
}
