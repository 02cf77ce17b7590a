// The port that packets come from. Routers with several ways to a target choose one by addresses and
// ports: the same port on every run keeps the path from changing by itself.
import { SystemCallError } from './libc.ts'
import type { Native, NativeSocket } from './native-socket.ts'

/** Ports that are tried when the wanted one is taken, before the system may choose. */
const TRIES_MAX = 16
/** From one to the next; more than the ports of one trace, so that two traces do not meet again. */
const STEP = 11

/**
 * Binds the socket to the wanted port or one near it, else to one that the system chooses; tells which.
 * Throws a SystemCallError.
 */
export function bindSourcePort(native: Native, socket: NativeSocket, wanted?: number): number {
  const anywhere = socket.family === 'IPv6' ? '::' : '0.0.0.0'
  const options = wanted === undefined ? 0 : TRIES_MAX
  for (let tries = 0; tries < options; tries++) {
    const port = (wanted ?? 0) + tries * STEP
    try {
      socket.bind(native.address(anywhere, port))
      return port
    } catch (error) {
      if (!(error instanceof SystemCallError) || error.code !== 'EADDRINUSE') throw error
    }
  }
  socket.bind(native.address(anywhere, 0))
  return socket.localAddress().port
}
