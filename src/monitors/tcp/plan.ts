// Plan of a TCP monitor, computed once for all its runs.
import type { Assertion } from '../../contract/assertion.ts'
import type { TcpMonitor, TcpRequest } from './definition.ts'
import type { TlsSettings } from '../../contract/tls.ts'
import type { Family } from '../../network/dial.ts'

/** A step of a dialogue. */
export type Step = TcpRequest['dialogue'][number]

/** A definition, ready to be run. */
export interface Plan {
  host: string
  port: number
  family: Family
  data: Buffer | undefined
  dialogue: readonly Step[]
  /** TLS from the first byte. */
  tlsFirst: boolean
  tlsSettings: TlsSettings | undefined
  skipSSL: boolean
  assertions: readonly Assertion[]
  /** Those about RESPONSE_DATA: without any, no answer is awaited. */
  dataAssertions: readonly Assertion[]
  /**
   * Whether data that satisfies the assertions still does so with any data after it, so that reading may
   * stop. The answer `1` satisfies `LESS_THAN 10` and `EQUALS 1`, until its next byte.
   */
  settlesEarly: boolean
  maxResponseTime: number
}

/** Common plan of all attempts of a monitor. */
export function makePlan({ request, maxResponseTime }: TcpMonitor): Plan {
  const text = request.data ?? request.body ?? ''
  const dataAssertions = request.assertions.filter(({ source }) => source === 'RESPONSE_DATA')
  const { tls } = request
  return {
    host: request.hostname ?? request.url ?? '',
    port: request.port,
    family: request.ipFamily,
    data: text === '' ? undefined : Buffer.from(text),
    dialogue: request.dialogue,
    tlsFirst: tls !== false && !request.dialogue.some((step) => 'startTls' in step),
    tlsSettings: typeof tls === 'object' ? tls : undefined,
    skipSSL: request.skipSSL,
    assertions: request.assertions,
    dataAssertions,
    settlesEarly: dataAssertions.every(
      ({ comparison }) => comparison === 'CONTAINS' || comparison === 'NOT_EMPTY',
    ),
    maxResponseTime,
  }
}
