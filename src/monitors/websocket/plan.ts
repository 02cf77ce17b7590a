// Common plan of all attempts of a WebSocket monitor.
import type { Assertion } from '../../contract/assertion.ts'
import type { Failure } from '../../contract/failure.ts'
import type { TlsSettings } from '../../contract/tls.ts'
import type { Family } from '../../network/dial.ts'
import { headerProblem, headersOf, type HttpTarget, targetFor } from '../../network/http/target.ts'
import type { WebSocketMonitor, WebSocketRequest } from './definition.ts'

/** A definition, ready to be run. */
export interface Plan {
  /** The handshake request, without its key, which each attempt generates. */
  target: HttpTarget
  /** With `ws:` or `wss:`, without credentials. */
  shownUrl: string
  subprotocols: readonly string[]
  message: string | undefined
  expect: string | undefined
  /** Whether to wait for a message. */
  reads: boolean
  ping: boolean
  family: Family
  skipSSL: boolean
  tls: TlsSettings | undefined
  assertions: readonly Assertion[]
  /** Whether a refusal is a failure. Else an assertion checks its status, and nothing needs a WebSocket. */
  needsOpen: boolean
}

/** Plan of the monitor, or the failure that prevents its run. */
export function makePlan({ request }: WebSocketMonitor): Plan | Failure {
  const problem = headerProblem(request)
  if (problem !== undefined) return problem
  const asserts = (...sources: string[]) =>
    request.assertions.some(({ source }) => sources.includes(source))
  const target = targetOf(request)
  const expect = request.expect ?? undefined
  const reads = expect !== undefined || asserts('MESSAGE', 'JSON_MESSAGE')
  return {
    target,
    shownUrl: target.shownUrl.replace(/^http/, 'ws'),
    subprotocols: request.subprotocols,
    message: request.message ?? undefined,
    expect,
    reads,
    ping: request.ping,
    family: request.ipFamily,
    skipSSL: request.skipSSL,
    tls: request.tls,
    assertions: request.assertions,
    needsOpen: !asserts('STATUS_CODE') || reads || asserts('PING_TIME', 'CLOSE_CODE'),
  }
}

function targetOf(request: WebSocketRequest): HttpTarget {
  const { url, subprotocols } = request
  const headers = headersOf(request)
  headers.push('Connection', 'Upgrade', 'Upgrade', 'websocket', 'Sec-WebSocket-Version', '13')
  if (subprotocols.length > 0) headers.push('Sec-WebSocket-Protocol', subprotocols.join(', '))
  return targetFor(new URL(url.replace(/^ws/i, 'http')), { method: 'GET', headers })
}
