// The words of the one way out to the network, for every type of monitor: where to connect to, what a
// connection is and cost, and who makes it. `createDialler` of dialler.ts makes the real one.
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { TlsSettings } from '../contract/tls.ts'
import type { PeerCertificates } from './tls/peer-certificates.ts'
import type { PeerFacts } from './tls/facts.ts'

export type Family = 'IPv4' | 'IPv6'

/** The phase in which an attempt stands; names the TIMEOUT_… code when its deadline comes. */
export type Phase =
  'dns' | 'connect' | 'proxy' | 'startTls' | 'tls' | 'send' | 'firstByte' | 'download'

/** Told as an attempt goes on, so that a deadline can be blamed on the phase it fell into. */
export interface Progress {
  phase: Phase
}

/** Where to connect to. */
export interface Endpoint {
  host: string
  port: number
  /** Which addresses of a name to use; a literal is taken as it is. */
  family: Family
  /** Connect to this address instead of resolving `host`; checked against the policy like any other. */
  address?: string | undefined
  /** For plain HTTP: a proxy may be spoken to itself, without a tunnel; see `Connection.forward`. */
  forward?: boolean
}

/** A connection that stands, and what it cost. Milliseconds. */
export interface Connection {
  /** Has a listener for errors that does nothing, so that an error between two steps ends no process. */
  socket: Socket
  /** The address that was really dialled; the proxy's where there is one. */
  address: string
  family: Family
  dnsMs: number
  connectMs: number
  /** Making the tunnel through the proxy; absent without one. */
  proxyMs?: number
  /** Host of the proxy, for messages; absent without one. */
  proxyHost?: string
  /** The socket leads to a proxy that takes requests in absolute form, with this Proxy-Authorization. */
  forward?: { authorization: string | undefined }
}

/** Options of a TLS handshake on a standing connection. */
export interface Handshake {
  /** Sent as SNI (unless an address) and checked against the certificate. `settings.serverName` wins. */
  serverName: string
  settings?: TlsSettings | undefined
  /** The peer, for messages; else what the socket says. */
  where?: string
  /** Application protocols to offer, in order of preference. */
  alpn?: string[]
  /**
   * What to offer: what this agent's OpenSSL takes for safe, the old versions and small keys besides, or
   * all that it can speak at all. For those who report on what they find and send nothing.
   */
  offer?: 'safe' | 'old' | 'anything'
}

/** A TLS connection that stands, whatever is wrong with the certificate. */
export interface SecureConnection {
  /** Has a listener for errors that does nothing, like `Connection.socket`. */
  socket: TLSSocket
  tlsMs: number
  /** Protocol, cipher, chain and what is wrong with it; complete even when verification failed. */
  peer: PeerFacts
  /** The peer's certificates; absent when it showed none. */
  certificates?: PeerCertificates | undefined
  /** The OCSP response that the peer stapled, as it came. */
  staple?: Buffer | undefined
}

/**
 * All methods reject with TargetFailure for what the target (or the policy) did, and with the signal's
 * reason as soon as it is aborted; `failureOf` turns both into data. No socket outlives a rejection.
 */
export interface Dialler {
  /** The location has a proxy, and all connections are to go through it. */
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
