// A port for a program that cannot listen on port 0.
import { once } from 'node:events'
import { createServer } from 'node:net'

/** Below the ports that the system gives to those who ask for any: no other test gets one of these by chance. */
const FREE_PORTS = { first: 10_000, count: 10_000 } as const

/** A port on which nothing listened a moment ago. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FREE_PORTS.first + Math.floor(Math.random() * FREE_PORTS.count)
    const server = createServer()
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true))
    })
    if (!isFree) continue
    server.close()
    await once(server, 'close')
    return port
  }
}
