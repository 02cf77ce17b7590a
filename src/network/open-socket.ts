// One TCP connection to one address.
import { connect, type Socket } from 'node:net'
import { connectFailure, placeOf } from './connect-errors.ts'
import { TargetFailure } from './target-failure.ts'

const ignore = () => {}

/**
 * Connects to a literal that the network policy has passed. Rejects with TargetFailure (CONNECT_…,
 * ADDRESS_BLOCKED by the system, RESOURCES_EXHAUSTED), or the signal's reason.
 */
export function openSocket(address: string, port: number, signal: AbortSignal): Promise<Socket> {
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
