// TLS on a connection that stands. Certificates are judged by us, so that their facts are known whatever is
// wrong with them; sessions are never resumed, so that every handshake is a whole one.
import { isIP, type Socket } from 'node:net'
import {
  connect as connectTls,
  createSecureContext,
  type ConnectionOptions,
  type SecureContext,
  type SecureContextOptions,
  type TLSSocket,
} from 'node:tls'
import type { TlsSettings } from '../contract/tls.ts'
import { connectionFailure, placeOf } from './connect-errors.ts'
import type { Handshake, Progress, SecureConnection } from './dial.ts'
import { LeastRecentlyUsed } from './least-recently-used.ts'
import { TargetFailure, targetFailure } from './target-failure.ts'
import { peerFacts } from './tls-facts.ts'

const ignore = () => {}
const accept = () => undefined

/**
 * Shakes hands on `socket`. Rejects with TargetFailure (TLS_…, CONNECTION_…, SETTINGS_INVALID when the
 * certificate and key of the settings do not fit), or the signal's reason; then the socket is destroyed.
 */
export function shakeHands(
  socket: Socket,
  handshake: Handshake,
  progress: Progress,
  signal: AbortSignal,
): Promise<SecureConnection> {
  progress.phase = 'tls'
  return new Promise((resolve, reject) => {
    const startedAt = performance.now()
    const name = handshake.settings?.serverName ?? handshake.serverName
    let secure: TLSSocket
    try {
      signal.throwIfAborted()
      secure = connectTls(connectOptions(socket, name, handshake))
    } catch (error) {
      socket.destroy()
      reject(error)
      return
    }
    let ocspStapled = false
    const settle = () => {
      signal.removeEventListener('abort', onAbort)
      secure.removeListener('secureConnect', onSecure)
      secure.removeListener('error', onError)
      secure.on('error', ignore)
    }
    const fail = (error: Error) => {
      settle()
      secure.destroy()
      socket.destroy()
      reject(error)
    }
    const onSecure = () => {
      const tlsMs = performance.now() - startedAt
      settle()
      resolve({ socket: secure, tlsMs, peer: peerFacts(secure, name, ocspStapled) })
    }
    const onError = (error: NodeJS.ErrnoException) => {
      const where = handshake.where ?? placeOf(socket.remoteAddress ?? name, socket.remotePort ?? 0)
      fail(new TargetFailure(connectionFailure(error, where)))
    }
    const onAbort = () => fail(signal.reason as Error)
    secure.once('OCSPResponse', (response: Buffer | null) => {
      ocspStapled = response !== null && response.length > 0
    })
    secure.on('secureConnect', onSecure)
    secure.on('error', onError)
    signal.addEventListener('abort', onAbort)
  })
}

function connectOptions(socket: Socket, name: string, handshake: Handshake): ConnectionOptions {
  return {
    socket,
    secureContext: secureContextFor(handshake.settings),
    servername: isIP(name) === 0 ? name : '',
    rejectUnauthorized: false,
    // The name is checked with the other facts, even when the chain does not verify.
    checkServerIdentity: accept,
    requestOCSP: true,
    ...(handshake.alpn === undefined ? {} : { ALPNProtocols: handshake.alpn }),
  }
}

// A context takes a millisecond to make; one that has its own authorities some 100 KB.
const CONTEXTS_MAX = 100
const contexts = new LeastRecentlyUsed<string, SecureContext>(CONTEXTS_MAX)
const keys = new WeakMap<TlsSettings, string>()
const NONE: TlsSettings = {}

function secureContextFor(settings: TlsSettings = NONE): SecureContext {
  let key = keys.get(settings)
  if (key === undefined) {
    const { serverName: _, ...rest } = settings
    key = JSON.stringify(rest)
    keys.set(settings, key)
  }
  let context = contexts.get(key)
  if (context === undefined) {
    context = makeContext(settings)
    contexts.set(key, context)
  }
  return context
}

function makeContext(settings: TlsSettings): SecureContext {
  const { ca, certificate, privateKey, passphrase, minVersion, maxVersion } = settings
  const old = minVersion === 'TLSv1' || minVersion === 'TLSv1.1'
  const given: SecureContextOptions = {
    ca,
    cert: certificate,
    key: privateKey,
    passphrase,
    minVersion,
    maxVersion,
    // OpenSSL speaks the old versions only below its usual security level.
    ciphers: old ? 'DEFAULT@SECLEVEL=0' : undefined,
  }
  try {
    return createSecureContext(withoutUndefined(given))
  } catch (error) {
    const { reason, message } = error as Error & { reason?: string }
    throw targetFailure('SETTINGS_INVALID', `the TLS settings cannot be used: ${reason ?? message}`)
  }
}

function withoutUndefined<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, one]) => one !== undefined)) as T
}
