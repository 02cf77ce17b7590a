// A cheap load generator: one GET at a time on each of a few keep-alive connections, written
// and read as bytes, with the time of every answer.
import { connect, type Socket } from 'node:net'
import { performance } from 'node:perf_hooks'

/** Figures of one load. */
export interface LoadFigures {
  requests: number
  seconds: number
  p50Ms: number
  p99Ms: number
}

/** Requests `path` repeatedly on `connections` connections for `ms`. Fails on any answer but 200. */
export async function load(ask: {
  port: number
  /** The path, or what gives the next one. */
  path: string | (() => string)
  headers: Record<string, string>
  connections: number
  ms: number
}): Promise<LoadFigures> {
  const lines = Object.entries(ask.headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const requestTo = (path: string) =>
    Buffer.from(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${lines.join('')}\r\n`)
  const { path } = ask
  const same = typeof path === 'string' ? requestTo(path) : undefined
  const next = () => same ?? requestTo((path as () => string)())
  const times: number[] = []
  const started = performance.now()
  const until = started + ask.ms
  const workers = Array.from({ length: ask.connections }, () => work(ask.port, next, until, times))
  await Promise.all(workers)
  const seconds = (performance.now() - started) / 1000
  times.sort((a, b) => a - b)
  const at = (share: number) => times[Math.floor(times.length * share)] ?? Number.NaN
  return { requests: times.length, seconds, p50Ms: at(0.5), p99Ms: at(0.99) }
}

function work(port: number, next: () => Buffer, until: number, times: number[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket: Socket = connect({ port, host: '127.0.0.1', noDelay: true })
    let begun = 0
    let missing = -1
    const ask = () => {
      if (performance.now() >= until) {
        socket.destroy()
        resolve()
        return
      }
      begun = performance.now()
      missing = -1
      socket.write(next())
    }
    socket.on('connect', ask)
    socket.on('error', reject)
    socket.on('close', () => reject(new Error('the server closed the connection')))
    socket.on('data', (chunk: Buffer) => {
      if (missing < 0) missing = bytesAfterHead(chunk, reject)
      else missing -= chunk.length
      if (missing > 0) return
      times.push(performance.now() - begun)
      ask()
    })
  })
}

/** Missing bytes of the body in `chunk`, which begins with the whole head. */
function bytesAfterHead(chunk: Buffer, reject: (error: Error) => void): number {
  const end = chunk.indexOf('\r\n\r\n')
  const head = chunk.toString('latin1', 0, end)
  const length = /content-length: (\d+)/i.exec(head)?.[1]
  if (!head.startsWith('HTTP/1.1 200') || length === undefined) {
    reject(new Error(`unexpected answer: ${head.slice(0, 200)}`))
    return 0
  }
  return Number(length) - (chunk.length - end - 4)
}
