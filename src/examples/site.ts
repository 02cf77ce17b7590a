// A small site on this machine alone, so that the example monitors have something real to watch
// without any network.
import { once } from 'node:events'
import type { Server } from 'node:http'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { serve } from '@hono/node-server'
import { Hono } from 'hono'

/** A variable for the example monitors, in the wire form. */
export interface SiteVariable {
  key: string
  value: string
  locked: boolean
  secret: boolean
}

/** The site while it runs. */
export interface ExampleSite {
  /** Like `http://127.0.0.1:40001`. */
  url: string
  httpPort: number
  /** A TCP server that speaks in lines. */
  linePort: number
  /** What `monitors.yaml` uses: SITE, SITE_PORT, LINE_PORT, and the secret TOKEN. */
  variables: SiteVariable[]
  /** Ends both servers and every connection to them. */
  close(): Promise<void>
}

/** The monitors file that goes with the site. */
export const EXAMPLE_MONITORS = new URL('monitors.yaml', import.meta.url)

const TOKEN = 'example-token-5f2c'
const SLOW_MS = 400
const LINE_CHARS_MAX = 1024
const IDLE_MS = 30_000

/** Starts the site on free ports of 127.0.0.1. */
export async function startExampleSite(): Promise<ExampleSite> {
  const http = serve({ fetch: createPages().fetch, hostname: '127.0.0.1', port: 0 }) as Server
  const sockets = new Set<Socket>()
  const lines = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    converse(socket)
  })
  lines.listen(0, '127.0.0.1')
  await Promise.all([http.listening || once(http, 'listening'), once(lines, 'listening')])
  const httpPort = (http.address() as AddressInfo).port
  const linePort = (lines.address() as AddressInfo).port
  const url = `http://127.0.0.1:${httpPort}`
  const plain = (key: string, value: string) => ({ key, value, locked: false, secret: false })
  return {
    url,
    httpPort,
    linePort,
    variables: [
      plain('SITE', url),
      plain('SITE_PORT', String(httpPort)),
      plain('LINE_PORT', String(linePort)),
      { key: 'TOKEN', value: TOKEN, locked: true, secret: true },
    ],
    async close() {
      const closed = [once(http, 'close'), once(lines, 'close')]
      http.close()
      http.closeAllConnections()
      lines.close()
      for (const socket of sockets) socket.destroy()
      await Promise.all(closed)
    },
  }
}

function createPages(): Hono {
  const app = new Hono()
  app.get('/', (context) => context.html('<!doctype html><title>Example</title><p>It works.'))
  app.get('/login', (context) => {
    context.header('set-cookie', 'session=example; Path=/; HttpOnly')
    return context.redirect('/account', 302)
  })
  app.get('/account', (context) => {
    const known = context.req.header('cookie')?.includes('session=example') === true
    return known ? context.text('Welcome back') : context.text('Who are you?', 401)
  })
  app.get('/api/status', (context) =>
    context.json({
      status: 'ok',
      services: [
        { name: 'database', depth: 0 },
        { name: 'queue', depth: 7 },
      ],
    }),
  )
  app.post('/api/orders', async (context) => {
    if (context.req.header('authorization') !== `Bearer ${TOKEN}`) {
      return context.json({ error: 'a token is needed' }, 401)
    }
    const order: unknown = await context.req.json().catch(() => undefined)
    if (typeof order !== 'object' || order === null) return context.json({ error: 'no order' }, 400)
    return context.json({ ...order, id: 1 }, 201)
  })
  app.post('/graphql', async (context) => {
    const asked = (await context.req.json().catch(() => undefined)) as { query?: unknown } | null
    if (typeof asked?.query !== 'string') return context.json({ errors: [{ message: 'no query' }] })
    return context.json({ data: { product: { name: 'lamp', price: 39 } } })
  })
  const report = gzipSync(`${'one more line of a long report\n'.repeat(500)}total: 15500\n`)
  app.get('/report', (context) =>
    context.body(new Uint8Array(report), 200, {
      'content-type': 'text/plain; charset=utf-8',
      'content-encoding': 'gzip',
    }),
  )
  app.get('/slow', async (context) => {
    await pause(SLOW_MS)
    return context.text('Here at last')
  })
  return app
}

/** READY on connect; then PING, HELLO name and QUIT, a line each. */
function converse(socket: Socket): void {
  let unread = ''
  socket.setEncoding('utf8')
  socket.setTimeout(IDLE_MS, () => socket.destroy())
  // A client that disconnects is ignored.
  socket.on('error', () => socket.destroy())
  socket.write('READY line server 1\r\n')
  socket.on('data', (text) => {
    unread += String(text)
    const lines = unread.split(/\r?\n/)
    unread = lines.pop() ?? ''
    if (unread.length > LINE_CHARS_MAX) socket.destroy()
    for (const line of lines) {
      const [command, name = 'stranger'] = line.split(' ')
      if (command === 'PING') socket.write('+PONG\r\n')
      else if (command === 'HELLO') socket.write(`+welcome, ${name}\r\n`)
      else if (command === 'QUIT') socket.end('+bye\r\n')
      else socket.write('-unknown command\r\n')
    }
  })
}
