// The node:http server under the app: its own bounds on requests, and the contract's error body even for
// what never becomes a request.
import { createServer, type Server } from 'node:http'
import type { Socket } from 'node:net'
import { getRequestListener, RequestError } from '@hono/node-server'
import { PROTOCOL_BOUNDS } from '../../contract/protocol/agent-protocol.ts'
import { API_BOUNDS } from '../../contract/api/bounds.ts'
import { ERROR_TEXTS, problem, type ErrorStatus } from '../../contract/schema/problem.ts'
import { DEFAULT_HOST } from '../../process/serve.ts'
import { answerError, ApiError } from './errors.ts'

/** The head of a request has to arrive within this. */
const HEADERS_MS = 10_000
/** Longer than load balancers keep idle connections (60 s), so that they close them first. */
const KEEP_ALIVE_MS = 65_000

/** Makes the server for `fetch`, not listening yet. */
export function createHttpServer(
  fetch: (request: Request, env: unknown) => Response | Promise<Response>,
): Server {
  const options = {
    maxHeaderSize: API_BOUNDS.headerBytesMax,
    headersTimeout: HEADERS_MS,
    // The apps time out on a slow body before this; uploads of artifacts have the longest limit.
    requestTimeout: HEADERS_MS + PROTOCOL_BOUNDS.artifactMsMax,
    connectionsCheckingInterval: 1000,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // The listener refuses a missing host too, and with a body.
    requireHostHeader: false,
  }
  const listener = getRequestListener(fetch, { errorHandler })
  // A request by HTTP/1.0 needs no Host; one by HTTP/1.1 without it is refused.
  const hostlessListener = getRequestListener(fetch, { errorHandler, hostname: DEFAULT_HOST })
  const server = createServer(options, (incoming, outgoing) => {
    const answer = incoming.httpVersion === '1.0' ? hostlessListener : listener
    void answer(incoming, outgoing)
  })
  server.on('clientError', answerClientError)
  return server
}

/** Answers a head that is HTTP but names nothing that could be asked for: a bad host, `*`, a backslash. */
function errorHandler(error: unknown): Response {
  const refused = error instanceof RequestError
  return answerError(refused ? new ApiError(400, 'The request names no URL') : undefined, {})
}

const STATUSES: Record<string, [ErrorStatus, string]> = {
  HPE_HEADER_OVERFLOW: [
    431,
    `The headers must have at most ${API_BOUNDS.headerBytesMax} bytes together`,
  ],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'The request must arrive in time'],
}

function answerClientError(error: Error & { code?: string }, socket: Socket): void {
  // Once an answer is on its way there is nothing left to say on this connection.
  const begun = (socket as { _httpMessage?: { headersSent?: boolean } })._httpMessage?.headersSent
  if (error.code === 'ECONNRESET' || !socket.writable || begun === true) {
    socket.destroy()
    return
  }
  const [status, message] = STATUSES[error.code ?? ''] ?? [400, 'The request is not HTTP/1.1']
  const body = JSON.stringify(problem(status, message))
  const head = [
    `HTTP/1.1 ${status} ${ERROR_TEXTS[status]}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Cache-Control: no-store',
    'Connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy())
}
