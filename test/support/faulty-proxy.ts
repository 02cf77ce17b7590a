// Stands between agents and a platform, and does to their requests what networks and proxies do: errors,
// answers that break off, silence, slowness.
import {
  createServer,
  request as send,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'

/** What happens to a request. */
export type Fault =
  /** Answered here; the platform never sees it. */
  | { kind: 'status'; status: number; headers?: Record<string, string>; body?: string }
  /** The platform gets it, and the answer breaks off after so many bytes. */
  | { kind: 'truncate'; bytes: number }
  /** The platform gets it, and its answer is lost with the connection. */
  | { kind: 'lose' }
  /** Nothing comes back, and the connection stays as if it were well. */
  | { kind: 'silence' }
  /** The connection is reset before the platform sees anything. */
  | { kind: 'reset' }
  /** The answer is another text with status 200. */
  | { kind: 'garbage'; body: string }

/** A proxy that can be told what to do wrong. */
export interface FaultyProxy {
  url: string
  /** Decides for every request from now on; undefined lets it through. */
  fault: (request: IncomingMessage) => Fault | undefined
  /** Requests that came, faults that were made. */
  readonly counts: { requests: number; faults: number }
  close(): void
}

/** Starts a proxy in front of what `target` names at each request. */
export async function startFaultyProxy(target: () => string): Promise<FaultyProxy> {
  const counts = { requests: 0, faults: 0 }
  const server: Server = createServer((request, response) => {
    counts.requests++
    const fault = proxy.fault(request)
    if (fault !== undefined) counts.faults++
    answer(request, response, target(), fault)
  })
  server.requestTimeout = 0
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const proxy: FaultyProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    fault: () => undefined,
    counts,
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
  return proxy
}

function answer(
  request: IncomingMessage,
  response: ServerResponse,
  target: string,
  fault: Fault | undefined,
): void {
  if (fault === undefined || fault.kind === 'truncate' || fault.kind === 'lose') {
    forward(request, response, target, fault)
    return
  }
  switch (fault.kind) {
    case 'silence':
      request.resume()
      return
    case 'reset':
      request.socket.resetAndDestroy()
      return
    case 'status':
      request.resume()
      response.writeHead(fault.status, fault.headers).end(fault.body ?? '')
      return
    case 'garbage':
      request.resume()
      response.writeHead(200, { 'content-type': 'application/json' }).end(fault.body)
  }
}

function forward(
  request: IncomingMessage,
  response: ServerResponse,
  target: string,
  fault: { kind: 'truncate'; bytes: number } | { kind: 'lose' } | undefined,
): void {
  const url = new URL(request.url ?? '/', target)
  const { host: _, ...headers } = request.headers
  const onward = send(url, { method: request.method, headers }, (answered) => {
    if (fault?.kind === 'lose') {
      answered.resume().once('end', () => request.socket.destroy())
      return
    }
    response.writeHead(answered.statusCode ?? 502, answered.headers)
    if (fault === undefined) {
      answered.pipe(response)
      return
    }
    let left = fault.bytes
    answered.on('data', (chunk: Buffer) => {
      response.write(chunk.subarray(0, left))
      left -= chunk.length
      if (left <= 0) request.socket.destroy()
    })
    answered.once('end', () => request.socket.destroy())
  })
  onward.on('error', () => response.destroy())
  response.on('close', () => onward.destroy())
  request.pipe(onward)
}
