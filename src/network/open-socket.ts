// One TCP connection to one address, or to that of a name.
import { connect, type Socket } from 'node:net'
import { connectFailure, placeOf } from './connect-errors.ts'
import type { Connection, Progress } from './dial.ts'
import { familyOf } from './ip-address.ts'
import { TargetFailure } from './target-failure.ts'

const ignore = () => {}

/**
 * Connects to a literal that the network policy has passed. Rejects with TargetFailure (CONNECT_…,
 * ADDRESS_BLOCKED by the system, RESOURCES_EXHAUSTED), or the signal's reason.
 */
function openSocket(address: string, port: number, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason as Error)
      return
    }
    const socket = connect({ host: address, port, autoSelectFamily: false })
    const settle = () => {
      signal.removeEventListener('abort', onAbort)
      socket.removeListener('connect', onConnect)
      socket.removeListener('error', onError)
      socket.on('error', ignore)
    }
    const onConnect = () => {
      settle()
      resolve(socket)
    }
    const onError = (error: NodeJS.ErrnoException) => {
      settle()
      socket.destroy()
      reject(new TargetFailure(connectFailure(error, placeOf(address, port))))
    }
    const onAbort = () => {
      settle()
      socket.destroy()
      reject(signal.reason as Error)
    }
    socket.on('connect', onConnect)
    socket.on('error', onError)
    signal.addEventListener('abort', onAbort)
  })
}

/** Where to connect to. */
interface Destination {
  /** The address, where there is nothing to look up. */
  literal: string | undefined
  lookUp(): Promise<string>
  /** Throws for an address that must not be dialled. */
  check?(address: string): void
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
