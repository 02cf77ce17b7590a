// The flow of a trace: the port that its packets come from. Routers with several ways to the target choose
// one by addresses and ports; the same ports on every run keep the path from changing by itself.
import { SystemCallError } from './libc.ts'
import type { Native, NativeSocket } from './native-socket.ts'

/** Ports that are tried when the wanted one is taken, before the system may choose. */
const TRIES_MAX = 16
/** From one to the next; more than the lanes of one trace, so that two traces do not meet again. */
const STEP = 11

/** Binds the socket to the wanted port, or to one near it; tells which. Throws a SystemCallError. */
export function bindFlow(native: Native, socket: NativeSocket, wanted: number): number {
  const anywhere = socket.family === 'IPv6' ? '::' : '0.0.0.0'
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const port = wanted + tries * STEP
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
