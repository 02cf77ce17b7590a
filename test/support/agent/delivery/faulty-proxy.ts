// A proxy between agents and a platform that fails as networks and proxies do: errors, truncated, missing and slow
// answers. It records every request, with its body if a test wants that.
import { createServer, request as send, type IncomingMessage, type ServerResponse } from 'node:http'
import { gunzipSync } from 'node:zlib'
import { listening } from '../../test-server.ts'

/** What happens to a request. */
export type Fault =
  /** Answered here; the platform never sees it. */
  | { kind: 'status'; status: number; headers?: Record<string, string>; body?: string }
  /** The platform gets the request; the answer is cut off after so many bytes. */
  | { kind: 'truncate'; bytes: number }
  /** The platform gets the request; its answer is lost with the connection. */
  | { kind: 'lose' }
  /** No answer; the connection stays open. */
  | { kind: 'no-answer' }
  /** The connection is reset before the platform sees anything. */
  | { kind: 'reset' }
  /** The answer is another text with status 200. */
  | { kind: 'garbage'; body: string }
  /** The answer has a limited rate. */
  | { kind: 'slow'; bytesPerSecond: number }
  /** The platform gets the request when this resolves. */
  | { kind: 'hold'; until: Promise<void> }
  /** The answer stops after so many bytes; the connection stays open. */
  | { kind: 'half-open'; bytes: number }

/** A forwarded request. */
export interface RecordedRequest {
  method: string
  path: string
  headers: IncomingMessage['headers']
  bytes: number
  /** The raw body; empty where only its length is recorded. */
  body: Buffer
}

/** A proxy with configurable faults. */
export type FaultyProxy = Awaited<ReturnType<typeof startFaultyProxy>>

/** Starts a proxy in front of what `target` names at each request; of bodies it records their lengths, or all. */
export async function startFaultyProxy(target: () => string, { recordsBodies = false } = {}) {
  const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    proxy.requests.push(recorded(request, recordsBodies))
    const fault: Fault | undefined = proxy.isDead ? { kind: 'no-answer' } : proxy.fault(request)
    if (fault !== undefined) proxy.faults++
    answer({ request, response, target: target(), isDead: () => proxy.isDead }, fault)
  }
  const server = await listening(createServer({ requestTimeout: 0 }, onRequest))
  const proxy = Object.assign(server, {
    url: `http://${server.authority}`,
    /** Decides for every request from now on; undefined lets it through. */
    fault: (_request: IncomingMessage): Fault | undefined => undefined,
    requests: [] as RecordedRequest[],
    /** Injected faults. */
    faults: 0,
    /** Whether nothing passes on any connection while all of them stay open. */
    isDead: false,
  })
  return proxy
}

function recorded(request: IncomingMessage, recordsBodies: boolean): RecordedRequest {
  const { method = '', url: path = '', headers } = request
  const one: RecordedRequest = { method, path, headers, bytes: 0, body: Buffer.alloc(0) }
  const pieces: Buffer[] = []
  request.on('data', (piece: Buffer) => {
    one.bytes += piece.length
    if (recordsBodies) pieces.push(piece)
  })
  request.once('close', () => (one.body = Buffer.concat(pieces)))
  // Until it is forwarded.
  request.pause()
  return one
}

/** The body of a request, unpacked if necessary. */
export function unpackedBody({ headers, body }: RecordedRequest): Buffer {
  return headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body
}

/** One request on its way. */
interface Passage {
  request: IncomingMessage
  response: ServerResponse
  target: string
  isDead: () => boolean
}

function answer(passage: Passage, fault: Fault | undefined): void {
  const { request, response } = passage
  if (fault === undefined) return forward(passage, fault)
  switch (fault.kind) {
    case 'no-answer':
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
      return
    case 'hold':
      void fault.until.then(() => forward(passage, undefined))
      return
    case 'truncate':
    case 'lose':
    case 'slow':
    case 'half-open':
      forward(passage, fault)
  }
}

type ForwardedFault = Extract<Fault, { kind: 'truncate' | 'lose' | 'slow' | 'half-open' }>

function forward(passage: Passage, fault: ForwardedFault | undefined): void {
  const { request, response, target } = passage
  const url = new URL(request.url ?? '/', target)
  const { host: _, ...headers } = request.headers
  const onward = send(url, { method: request.method, headers }, (answered) => {
    if (passage.isDead()) return
    if (fault?.kind === 'lose') {
      answered.resume().once('end', () => request.socket.destroy())
      return
    }
    response.writeHead(answered.statusCode ?? 502, answered.headers)
    if (fault === undefined) answered.pipe(response)
    else if (fault.kind === 'slow') trickle(answered, passage, fault.bytesPerSecond)
    else cutShort(answered, passage, fault)
  })
  onward.on('error', () => response.destroy())
  response.on('close', () => onward.destroy())
  request.pipe(onward)
}

/** Forwards so many bytes of an answer; then the connection ends, or stays open without data. */
function cutShort(
  answered: IncomingMessage,
  { request, response }: Passage,
  { kind, bytes }: { kind: 'truncate' | 'half-open'; bytes: number },
): void {
  const over = () => {
    if (kind === 'truncate') request.socket.destroy()
  }
  let left = bytes
  answered.on('data', (chunk: Buffer) => {
    if (left > 0) response.write(chunk.subarray(0, left))
    left -= chunk.length
    if (left <= 0) over()
  })
  answered.once('end', over)
}

const TRICKLE_MS = 100

/** Forwards an answer at a limited rate, with backpressure. */
function trickle(answered: IncomingMessage, { response, isDead }: Passage, bytesPerSecond: number) {
  const share = Math.max(1, Math.round((bytesPerSecond * TRICKLE_MS) / 1000))
  let isOver = false
  answered.once('end', () => (isOver = true))
  const timer = setInterval(() => {
    if (isDead()) return
    const some = (answered.read(Math.min(share, answered.readableLength)) ??
      Buffer.alloc(0)) as Buffer
    if (some.length > 0) response.write(some)
    else if (isOver) {
      clearInterval(timer)
      response.end()
    } else answered.read(0)
  }, TRICKLE_MS)
  response.on('close', () => clearInterval(timer))
}
