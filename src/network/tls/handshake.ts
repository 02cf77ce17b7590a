// TLS handshake on an open connection. Certificates are evaluated here, so that their facts are known even if they
// are invalid; sessions are never resumed, so that every handshake is a full one.
import { constants } from 'node:crypto'
import { isIP, type Socket } from 'node:net'
import {
  connect as connectTls,
  createSecureContext,
  type ConnectionOptions,
  type DetailedPeerCertificate,
  type SecureContext,
  type SecureContextOptions,
  TLSSocket,
} from 'node:tls'
import type { TlsSettings } from '../../contract/tls.ts'
import { connectionFailure, placeOf } from '../connect-errors.ts'
import { untilEvent } from '../deadline.ts'
import type { Handshake, Progress, SecureConnection } from '../dial.ts'
import { LeastRecentlyUsed } from '../least-recently-used.ts'
import { TargetFailure, targetFailure } from '../target-failure.ts'
import { peerCertificates } from './peer-certificates.ts'
import { peerFacts } from './facts.ts'

const ignore = () => {}
const accept = () => undefined
// oxlint-disable-next-line typescript/unbound-method -- it is put back where it was
const { getPeerCertificate } = TLSSocket.prototype
const noCertificate = () => ({}) as DetailedPeerCertificate

/**
 * Performs the handshake on `socket`. Rejects with TargetFailure (TLS_…, CONNECTION_…, SETTINGS_INVALID when the
 * certificate and key of the settings do not fit), or the signal's reason; then the socket is destroyed.
 */
export async function shakeHands(
  socket: Socket,
  handshake: Handshake,
  progress: Progress,
  signal: AbortSignal,
): Promise<SecureConnection> {
  progress.phase = 'tls'
  const startedAt = performance.now()
  const name = handshake.settings?.serverName ?? handshake.serverName
  const where = handshake.where ?? placeOf(socket.remoteAddress ?? name, socket.remotePort ?? 0)
  let secure: TLSSocket | undefined
  let staple: Buffer | undefined
  try {
    signal.throwIfAborted()
    secure = connectTls(connectOptions(socket, name, handshake))
    // Node reads the whole chain for `checkServerIdentity`, which would cost a sixth of a handshake and is not
    // needed here.
    secure.getPeerCertificate = noCertificate
    secure.on('error', ignore)
    secure.once('OCSPResponse', (response: Buffer | null) => {
      if (response !== null && response.length > 0) staple = response
    })
    await untilEvent(secure, 'secureConnect', signal)
  } catch (error) {
    secure?.destroy()
    socket.destroy()
    signal.throwIfAborted()
    if (secure === undefined) throw error
    throw new TargetFailure(connectionFailure(error as Error, where, 'during the TLS handshake'))
  }
  const tlsMs = performance.now() - startedAt
  // Not deleted: that would make all that follows on the socket slow.
  secure.getPeerCertificate = getPeerCertificate
  const certificates = peerCertificates(secure, where)
  const peer = peerFacts(secure, certificates, name, staple !== undefined)
  return { socket: secure, tlsMs, peer, certificates, staple }
}

function connectOptions(socket: Socket, name: string, handshake: Handshake): ConnectionOptions {
  return {
    socket,
    secureContext: secureContextFor(handshake.settings, handshake.offer),
    servername: isIP(name) === 0 ? name : '',
    rejectUnauthorized: false,
    // The name is checked with the other facts, even when the chain does not verify.
    checkServerIdentity: accept,
    requestOCSP: true,
    ...(handshake.alpn === undefined ? {} : { ALPNProtocols: handshake.alpn }),
  }
}

// Creating a context takes a millisecond; one with its own authorities needs some 100 KB.
const CONTEXTS_MAX = 100
const contexts = new LeastRecentlyUsed<string, SecureContext>(CONTEXTS_MAX)
/** Keys of contexts, which hold whole bundles of authorities: made and hashed once for each settings. */
const keys = new WeakMap<TlsSettings, Map<Offer, string>>()
const NONE: TlsSettings = {}

function secureContextFor(settings = NONE, offer: Offer = 'safe'): SecureContext {
  return contexts.getOrMake(keyOf(settings, offer), () => makeContext(settings, offer))
}

function keyOf(settings: TlsSettings, offer: Offer): string {
  let own = keys.get(settings)
  if (own === undefined) keys.set(settings, (own = new Map()))
  let key = own.get(offer)
  if (key === undefined) {
    const { serverName: _, ...rest } = settings
    own.set(offer, (key = `${offer} ${JSON.stringify(rest)}`))
  }
  return key
}

type Offer = NonNullable<Handshake['offer']>

/**
 * OpenSSL allows old versions and small keys only below its default security level. With these offers, AES-128 with
 * SHA-256 is preferred, as in browsers: it also costs less, and servers mostly let the client choose.
 */
const CIPHERS: Partial<Record<Offer, string>> = {
  old: 'TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:DEFAULT:+AES256:@SECLEVEL=0',
  anything: 'ALL:COMPLEMENTOFALL:@SECLEVEL=0',
}

/**
 * The groups for the key exchange. Keys of the newest ones (ML-KEM) cost as much as the rest of the handshake, so this
 * offer uses them only with a server that accepts no other.
 */
const GROUPS: Partial<Record<Offer, string>> = { old: 'X25519:P-256:P-384:P-521' }

function makeContext(settings: TlsSettings, offer: Offer): SecureContext {
  const { ca, certificate, privateKey, passphrase, minVersion, maxVersion } = settings
  const old = minVersion === 'TLSv1' || minVersion === 'TLSv1.1'
  const safe = offer === 'safe'
  const options: SecureContextOptions = {
    ca,
    cert: certificate,
    key: privateKey,
    passphrase,
    minVersion: safe ? minVersion : (minVersion ?? 'TLSv1'),
    maxVersion,
    ciphers: safe && old ? 'DEFAULT:@SECLEVEL=0' : CIPHERS[offer],
    ecdhCurve: GROUPS[offer],
    // Servers without secure renegotiation (RFC 5746) are old, but they do speak TLS.
    secureOptions: safe ? undefined : constants.SSL_OP_LEGACY_SERVER_CONNECT,
  }
  try {
    return createSecureContext(options)
  } catch (error) {
    const { reason, message } = error as Error & { reason?: string }
    throw targetFailure('SETTINGS_INVALID', `the TLS settings cannot be used: ${reason ?? message}`)
  }
}
