// What all attempts of a WebSocket monitor share.
import { validateHeaderName, validateHeaderValue } from 'node:http'
import type { Assertion } from '../../contract/assertion.ts'
import { failure, type Failure } from '../../contract/failure.ts'
import type { TlsSettings } from '../../contract/tls.ts'
import type { Family } from '../../network/dial.ts'
import { basic, type HttpTarget, namesOf, targetFor } from '../../network/http/target.ts'
import type { WebSocketMonitor, WebSocketRequest } from './definition.ts'

/** A definition, ready to be run. */
export interface Plan {
  /** The handshake, as the HTTP request that it is; without its key, which each attempt makes. */
  target: HttpTarget
  /** With `ws:` or `wss:`, without credentials. */
  shownUrl: string
  subprotocols: readonly string[]
  message: string | undefined
  expect: string | undefined
  /** Whether a message is awaited, be it any. */
  reads: boolean
  ping: boolean
  family: Family
  skipSSL: boolean
  tls: TlsSettings | undefined
  assertions: readonly Assertion[]
  /** Any status is fine as such: an assertion says which one it must be. */
  assertsStatus: boolean
}

/** Plans the monitor, or says what keeps it from running. */
export function makePlan({ request }: WebSocketMonitor): Plan | Failure {
  const problem = headerProblem(request)
  if (problem !== undefined) return problem
  const asserts = (...sources: string[]) =>
    request.assertions.some(({ source }) => sources.includes(source))
  const target = targetOf(request)
  const expect = request.expect ?? undefined
  return {
    target,
    shownUrl: target.shownUrl.replace(/^http/, 'ws'),
    subprotocols: request.subprotocols,
    message: request.message ?? undefined,
    expect,
    reads: expect !== undefined || asserts('MESSAGE', 'JSON_MESSAGE'),
    ping: request.ping,
    family: request.ipFamily,
    skipSSL: request.skipSSL,
    tls: request.tls,
    assertions: request.assertions,
    assertsStatus: asserts('STATUS_CODE'),
  }
}

/** The message names the header, never its value. */
function headerProblem({ headers }: WebSocketRequest): Failure | undefined {
  for (const { key, value } of headers) {
    try {
      validateHeaderName(key)
      validateHeaderValue(key, value)
    } catch {
      const message = `the header ${JSON.stringify(key)} has a character that HTTP does not allow`
      return failure('SETTINGS_INVALID', message, { header: key })
    }
  }
  return undefined
}

function targetOf({ url, headers: pairs, basicAuth, subprotocols }: WebSocketRequest): HttpTarget {
  const headers = pairs.flatMap(({ key, value }) => [key, value])
  const { username = '', password = '' } = basicAuth ?? {}
  const hasCredentials = username !== '' || password !== ''
  if (hasCredentials && !namesOf(headers).has('authorization')) {
    headers.push('Authorization', basic(username, password))
  }
  headers.push('Connection', 'Upgrade', 'Upgrade', 'websocket', 'Sec-WebSocket-Version', '13')
  if (subprotocols.length > 0) headers.push('Sec-WebSocket-Protocol', subprotocols.join(', '))
  return targetFor(new URL(url.replace(/^ws/i, 'http')), { method: 'GET', headers })
}
