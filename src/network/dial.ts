// Types of the dialler, the only egress of all monitor types: endpoints, connections with their timings, and
// handshakes. `createDialler` of dialler.ts creates the real one.
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { TlsSettings } from '../contract/tls.ts'
import type { PeerCertificates } from './tls/peer-certificates.ts'
import type { PeerFacts } from './tls/facts.ts'

export type Family = 'IPv4' | 'IPv6'

/** The phase of an attempt; determines the TIMEOUT_… code when its deadline passes. */
export type Phase =
  'dns' | 'connect' | 'proxy' | 'startTls' | 'tls' | 'send' | 'firstByte' | 'download'

/** Updated during an attempt, so that a deadline is attributed to the current phase. */
export interface Progress {
  phase: Phase
}

/** The destination of a connection. */
export interface Endpoint {
  host: string
  port: number
  /** Which addresses of a name to use; a literal is used as it is. */
  family: Family
  /** Connect to this address instead of resolving `host`; checked against the policy like any other. */
  address?: string | undefined
  /** For plain HTTP: a proxy may be used without a tunnel; see `Connection.forward`. */
  forward?: boolean
}

/** An open connection and its timings. Milliseconds. */
export interface Connection {
  /** Has a listener for errors that does nothing, so that an error between two steps does not end the process. */
  socket: Socket
  /** The dialled address; the proxy's if there is one. */
  address: string
  family: Family
  dnsMs: number
  connectMs: number
  /** Time to open the tunnel through the proxy; absent without one. */
  proxyMs?: number
  /** Host of the proxy, for messages; absent without one. */
  proxyHost?: string
  /** The socket leads to a proxy that accepts requests in absolute form, with this Proxy-Authorization. */
  forward?: { authorization: string | undefined }
}

/** Options of a TLS handshake on an open connection. */
export interface Handshake {
  /** Sent as SNI (unless an address) and checked against the certificate. `settings.serverName` wins. */
  serverName: string
  settings?: TlsSettings | undefined
  /** The peer, for messages; default: the address of the socket. */
  where?: string
  /** Application protocols to offer, in order of preference. */
  alpn?: string[]
  /**
   * `safe`: the defaults of this agent's OpenSSL; `old`: also old versions and small keys; `anything`: all that it
   * supports. The last two are for monitors that only report on the connection and send nothing.
   */
  offer?: 'safe' | 'old' | 'anything'
}

/** An open TLS connection, even with an invalid certificate. */
export interface SecureConnection {
  /** Has a listener for errors that does nothing, like `Connection.socket`. */
  socket: TLSSocket
  tlsMs: number
  /** Protocol, cipher, chain and its failure; complete even when verification failed. */
  peer: PeerFacts
  /** The peer's certificates; absent when it sent none. */
  certificates?: PeerCertificates | undefined
  /** The raw OCSP response that the peer stapled. */
  staple?: Buffer | undefined
}

/**
 * All methods reject with TargetFailure for failures of the target or the policy, and with the signal's reason as
 * soon as it is aborted; `failureOf` turns both into data. No socket outlives a rejection.
 */
export interface Dialler {
  /** The location has a proxy, and all connections go through it. */
  readonly isProxied: boolean
  /** Addresses of a name, in the resolver's order. Rejects with DNS_…, or ADDRESS_BLOCKED if any is. */
  resolve(host: string, family: Family, signal: AbortSignal): Promise<string[]>
  /** Rejects with DNS_…, CONNECT_…, PROXY_…, ADDRESS_BLOCKED, RESOURCES_EXHAUSTED. */
  connect(endpoint: Endpoint, progress: Progress, signal: AbortSignal): Promise<Connection>
  /** Rejects with TLS_PROTOCOL, TLS_NOT_SPOKEN, …; a bad certificate is no rejection, see `peer.failure`. */
  secure(
    socket: Socket,
    handshake: Handshake,
    progress: Progress,
    signal: AbortSignal,
  ): Promise<SecureConnection>
}
