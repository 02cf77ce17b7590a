// One TCP connection to one address, or to that of a name.
import { connect, type Socket } from 'node:net'
import { connectFailure, placeOf } from './connect-errors.ts'
import { untilEvent } from './deadline.ts'
import type { Connection, Progress } from './dial.ts'
import { familyOf } from './ip-address.ts'
import { TargetFailure } from './target-failure.ts'

const ignore = () => {}

/**
 * Connects to a literal that the network policy has passed. Rejects with TargetFailure (CONNECT_…,
 * ADDRESS_BLOCKED by the system, RESOURCES_EXHAUSTED), or the signal's reason.
 */
async function openSocket(address: string, port: number, signal: AbortSignal): Promise<Socket> {
  signal.throwIfAborted()
  const socket = connect({ host: address, port, autoSelectFamily: false })
  socket.on('error', ignore)
  try {
    await untilEvent(socket, 'connect', signal)
    return socket
  } catch (error) {
    socket.destroy()
    signal.throwIfAborted()
    throw new TargetFailure(connectFailure(error as Error, placeOf(address, port)))
  }
}

/** Where to connect to. */
interface Destination {
  /** The address, where there is nothing to look up. */
  literal: string | undefined
  lookUp: () => Promise<string>
  /** Throws for an address that must not be dialled. */
  check?: (address: string) => void
  port: number
}

/** Looks up and checks the address, and connects. Rejects as `openSocket`, `lookUp` and `check` do. */
export async function connectTo(
  { literal, lookUp, check, port }: Destination,
  progress: Progress,
  signal: AbortSignal,
): Promise<Connection> {
  progress.phase = 'dns'
  const startedAt = performance.now()
  const address = literal ?? (await lookUp())
  check?.(address)
  const resolvedAt = performance.now()
  progress.phase = 'connect'
  const socket = await openSocket(address, port, signal)
  return {
    socket,
    address,
    family: familyOf(address),
    dnsMs: literal === undefined ? resolvedAt - startedAt : 0,
    connectMs: performance.now() - resolvedAt,
  }
}
