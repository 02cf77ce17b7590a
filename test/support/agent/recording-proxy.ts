// A proxy between agents and a platform that records every byte sent, as it is and decompressed. It can hold a
// request back until the test releases it.
import { createServer, type IncomingMessage, request as send } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gunzipSync } from 'node:zlib'

/** A forwarded request. */
export interface RecordedRequest {
  method: string
  path: string
  headers: IncomingMessage['headers']
  bytes: number
  /** The raw body; empty where only its length is recorded. */
  body: Buffer
}

/** A recording proxy. */
export interface RecordingProxy {
  url: string
  readonly requests: RecordedRequest[]
  /** Called for every request: with a promise, the request is forwarded when it resolves. */
  hold: (method: string, path: string) => Promise<void> | undefined
  close(): void
}

/** Starts a proxy in front of `target`; without `recordsBodies` it records only their lengths. */
export async function startRecordingProxy(
  target: () => string,
  { recordsBodies = true } = {},
): Promise<RecordingProxy> {
  const requests: RecordedRequest[] = []
  const server = createServer((request, response) => {
    const { method = '', url: path = '', headers } = request
    const one: RecordedRequest = { method, path, headers, bytes: 0, body: Buffer.alloc(0) }
    requests.push(one)
    const pieces: Buffer[] = []
    request.on('data', (piece: Buffer) => {
      one.bytes += piece.length
      if (recordsBodies) pieces.push(piece)
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
    const release = proxy.hold(method, path)
    if (release === undefined) pass()
    else void release.then(pass)
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

/** The text of a body, decompressed if necessary. */
export function unpackedBody({ headers, body }: RecordedRequest): Buffer {
  return headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body
}
