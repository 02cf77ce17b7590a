// Runs an SSL monitor in tests, with its deadline.
import type { TlsOptions } from 'node:tls'
import { ssl } from '../../../../src/monitors/ssl/index.ts'
import type { KeyPair } from '../../network/certificates.ts'
import type { TestServer } from '../../test-server.ts'
import { checkMonitor } from '../check-monitor.ts'
import type { ContextOptions } from '../monitor-context.ts'
import { startTls } from '../tcp-servers.ts'

/** Overrides of the defaults of a run. */
export interface SslOptions {
  sslConfig?: object
  /** Other fields of the request. */
  request?: object
  /** Fields of the monitor. */
  settings?: object
  context?: ContextOptions
  ca?: string
}

/** Runs a monitor of the port of 127.0.0.1, by the name localhost. */
export function runSsl(port: number, options: SslOptions = {}) {
  const { sslConfig, request, settings, context, ca } = options
  const tls = ca === undefined ? {} : { tls: { ca } }
  const config = { hostname: 'localhost', port, ...sslConfig }
  return checkMonitor(ssl, { sslConfig: config, ...tls, ...request }, settings, context)
}

/** Starts a server with every version of TLS, unless the options restrict them. */
export function startTlsServer(pair: KeyPair, options: TlsOptions = {}): Promise<TestServer> {
  const lenient = { minVersion: 'TLSv1', ciphers: 'DEFAULT:@SECLEVEL=0' } as const
  return startTls({ ...lenient, ...pair, ...options }, (socket) => void socket.resume())
}
