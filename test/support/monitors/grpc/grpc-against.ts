// Runs gRPC monitors against raw servers in tests, and sees to it that no connection is left behind.
import type { Socket } from 'node:net'
import { codes, runGrpc, type Options } from './grpc-run.ts'
import { eventually } from '../../eventually.ts'
import { startStopwatch } from '../../stopwatch.ts'
import type { Behaviour } from '../tcp-servers.ts'
import { startRawServer, type TestServer } from '../../test-server.ts'

export const HEALTH = { mode: 'HEALTH' }

/** What a run against a server may take. */
export const DEADLINE_MS = 400

/** Runs against a raw server; sees to it that nothing is left. */
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

/** Waits for the end of the connections, of which a server that does not read would not hear. */
export async function closed(server: TestServer, sockets: readonly Socket[]): Promise<void> {
  for (const socket of sockets) socket.resume()
  await eventually(() => server.open() === 0)
}
