// Chooses the source port. Routers with several paths to a target choose one by addresses and ports: with the same
// port on every run the path does not change by itself.
import { SystemCallError } from './libc.ts'
import type { Native, NativeSocket } from './native-socket.ts'

/** Ports to try from the wanted one on, before the system chooses. */
const TRIES_MAX = 16
/** Distance of these ports; more than the ports of one trace, so that two traces do not overlap again. */
const STEP = 11

/**
 * Binds the socket to the wanted port or one near it, else to one that the system chooses. Returns
 * the port. Throws a SystemCallError.
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
