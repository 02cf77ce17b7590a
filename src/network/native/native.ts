// Native code for kernel features that Node does not offer (ICMP sockets, kernel time stamps, error queues). Only an
// agent that needs them loads it.
import type * as sockets from './native-socket.ts'

/** Opens sockets, waits for them, and reads the kernel's clock. */
export type Native = Pick<typeof sockets, 'open' | 'address' | 'clockMs' | 'watch'>

let loading: Promise<Native> | undefined

/** Loads the native code at first use. Rejects where the system is not Linux, or koffi has no binary for it. */
export function loadNative(): Promise<Native> {
  return (loading ??= load())
}

async function load(): Promise<Native> {
  if (process.platform !== 'linux')
    throw new Error(`it needs Linux, and this is ${process.platform}`)
  try {
    return await import('./native-socket.ts')
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new Error(`the C library could not be bound: ${why}`, { cause: error })
  }
}
