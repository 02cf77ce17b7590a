// Runs gRPC monitors in tests, with the deadline that the runner would set, against any port or a raw server.
import type { Socket } from 'node:net'
import { eventually } from '../../eventually.ts'
import { startStopwatch } from '../../stopwatch.ts'
import type { Behaviour } from '../tcp-servers.ts'
import { startRawServer, type TestServer } from '../../test-server.ts'
import { GrpcMonitor } from '../../../../src/monitors/grpc/definition.ts'
import type { Context } from '../../../../src/monitors/monitor.ts'
import type { Observation } from '../../../../src/contract/observation.ts'
import { grpc } from '../../../../src/monitors/grpc/index.ts'
import type { GrpcObserved } from '../../../../src/monitors/grpc/observed.ts'
import { deadlineAfter, testContext } from '../monitor-context.ts'

export type Options = Record<string, unknown>
export type GrpcObservation = Observation & { observed: GrpcObserved }

/** Options of a run. */
export interface GrpcOrder {
  port: number
  /** Fields of `grpcConfig`; TLS is off. */
  config: Options
  /** Fields of `grpcConfig` from variables, not validated by the schema. */
  brought?: Options
  /** Other fields of the request. */
  request?: Options | undefined
  /** Other fields of the monitor. */
  settings?: Options | undefined
  context?: Partial<Context> | undefined
}

/** Runs a monitor once. */
export async function runGrpc(order: GrpcOrder): Promise<GrpcObservation> {
  const parsed = GrpcMonitor.parse({
    id: 'm',
    name: 'm',
    checkType: 'GRPC',
    request: {
      url: '127.0.0.1',
      port: order.port,
      grpcConfig: { tls: false, ...order.config },
      ...order.request,
    },
    ...order.settings,
  })
  const { request } = parsed
  const grpcConfig = { ...request.grpcConfig, ...order.brought }
  const monitor = { ...parsed, request: { ...request, grpcConfig } }
  const signal = order.context?.signal ?? deadlineAfter(grpc.deadlineMs(monitor))
  const observation = await grpc.prepare(monitor)({ ...testContext({ signal }), ...order.context })
  return observation as GrpcObservation
}

/** The codes of the failures. */
export const codes = ({ failures }: Observation) => failures.map(({ code }) => code)

export const HEALTH = { mode: 'HEALTH' }

/** Deadline of a run against a server. */
export const DEADLINE_MS = 400

/** Runs against a raw server; checks that no connection remains. */
export async function against(behave: Behaviour, config: Options = HEALTH) {
  const sockets: Socket[] = []
  await using server = await startRawServer((socket) => {
    sockets.push(socket)
    behave(socket)
  })
  const ownMs = startStopwatch()
  const observation = await runGrpc({
    port: server.port,
    config,
    settings: { maxResponseTime: DEADLINE_MS, degradedResponseTime: DEADLINE_MS },
  })
  const tookMs = ownMs()
  await closed(server, sockets)
  return { observation, tookMs, code: codes(observation)[0] }
}

/** Waits for the end of the connections. Reads them: a paused socket would not report its end. */
export async function closed(server: TestServer, sockets: readonly Socket[]): Promise<void> {
  for (const socket of sockets) socket.resume()
  await eventually(() => server.open() === 0)
}
