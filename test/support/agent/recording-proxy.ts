// Stands between agents and a platform and writes down every byte that they send, as it is and unpacked; can
// hold a request back until somebody lets it go.
import { createServer, type IncomingMessage, request as send } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gunzipSync } from 'node:zlib'

/** A request that passed. */
export interface RecordedRequest {
  method: string
  path: string
  headers: IncomingMessage['headers']
  bytes: number
  /** As it was sent; empty where only its length is kept. */
  body: Buffer
}

/** A proxy that remembers. */
export interface RecordingProxy {
  url: string
  readonly requests: RecordedRequest[]
  /** Asked of every request: one that waits is passed on when the promise resolves. */
  hold: (method: string, path: string) => Promise<void> | undefined
  close(): void
}

/** Starts one in front of `target`; without `keepsBodies` it keeps their lengths alone. */
export async function startRecordingProxy(
  target: () => string,
  { keepsBodies = true } = {},
): Promise<RecordingProxy> {
  const requests: RecordedRequest[] = []
  const server = createServer((request, response) => {
    const { method = '', url: path = '', headers } = request
    const one: RecordedRequest = { method, path, headers, bytes: 0, body: Buffer.alloc(0) }
    requests.push(one)
    const pieces: Buffer[] = []
    request.on('data', (piece: Buffer) => {
      one.bytes += piece.length
      if (keepsBodies) pieces.push(piece)
    })
    request.once('close', () => (one.body = Buffer.concat(pieces)))
    request.pause()
    const pass = () => {
      const { host: _, ...rest } = headers
      const onward = send(new URL(path, target()), { method, headers: rest }, (answered) => {
        response.writeHead(answered.statusCode ?? 502, answered.headers)
        answered.pipe(response)
      })
      onward.on('error', () => response.destroy())
      response.on('close', () => onward.destroy())
      request.pipe(onward)
    }
    const held = proxy.hold(method, path)
    if (held === undefined) pass()
    else void held.then(pass)
  })
  server.requestTimeout = 0
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const proxy: RecordingProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    hold: () => undefined,
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
  return proxy
}

/** What a body says, unpacked where its sender packed it. */
export function unpackedBody({ headers, body }: RecordedRequest): Buffer {
  return headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body
}
