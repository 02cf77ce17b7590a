// Runs gRPC monitors against raw servers in tests, and checks that no connection remains open.
import type { Socket } from 'node:net'
import { codes, runGrpc, type Options } from './grpc-run.ts'
import { eventually } from '../../eventually.ts'
import { startStopwatch } from '../../stopwatch.ts'
import type { Behaviour } from '../tcp-servers.ts'
import { startRawServer, type TestServer } from '../../test-server.ts'

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
