// Runs an SSL monitor in tests, with its deadline.
import type { KeyPair } from '../../network/certificates.ts'
import { deadlineAfter, testContext } from '../monitor-context.ts'
import { startTls } from '../tcp-servers.ts'
import type { TestServer } from '../../test-server.ts'
import type { Context } from '../../../../src/monitors/monitor.ts'
import type { Observation } from '../../../../src/contract/observation.ts'
import { ssl } from '../../../../src/monitors/ssl/index.ts'
import type { TlsOptions } from 'node:tls'

/** Overrides of the defaults of a run. */
export interface SslOptions {
  sslConfig?: Record<string, unknown>
  /** Other fields of the request. */
  request?: Record<string, unknown>
  /** Fields of the monitor. */
  settings?: Record<string, unknown>
  context?: Partial<Context>
  ca?: string
}

/** Runs a monitor of the port of 127.0.0.1, by the name localhost. */
export async function runSsl(port: number, options: SslOptions = {}): Promise<Observation> {
  const { sslConfig, request, settings, context, ca } = options
  const monitor = ssl.schema.parse({
    id: 'm',
    name: 'm',
    checkType: 'SSL',
    request: {
      sslConfig: { hostname: 'localhost', port, ...sslConfig },
      ...(ca === undefined ? {} : { tls: { ca } }),
      ...request,
    },
    ...settings,
  })
  const signal = deadlineAfter(ssl.deadlineMs(monitor))
  return ssl.prepare(monitor)({ ...testContext({ signal }), ...context })
}

/** The codes of an observation. */
export function codesOf({ failures }: Observation): string[] {
  return failures.map(({ code }) => code)
}

/** Starts a server with every version of TLS, unless the options restrict them. */
export function startTlsServer(pair: KeyPair, options: TlsOptions = {}): Promise<TestServer> {
  const lenient = { minVersion: 'TLSv1', ciphers: 'DEFAULT:@SECLEVEL=0' } as const
  return startTls({ ...lenient, ...pair, ...options }, (socket) => void socket.resume())
}
