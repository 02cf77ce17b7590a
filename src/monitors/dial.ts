// The one way out to the network for every type of monitor: resolve, check the address against the
// policy, connect (through the location's proxy where it has one), and speak TLS.
import type { Socket } from 'node:net'
import type { PeerFacts } from './tls-facts.ts'

export type Family = 'IPv4' | 'IPv6'

/** The phase in which an attempt stands; names the TIMEOUT_… code when its deadline comes. */
export type Phase = 'dns' | 'connect' | 'proxy' | 'tls' | 'send' | 'firstByte' | 'download'

/** Where to connect to. */
export interface Endpoint {
  host: string
  port: number
  family: Family
  /** Connect to this address instead of resolving `host`; checked against the policy like any other. */
  address?: string
}

/** A connection that stands, and what it cost. Milliseconds. */
export interface Connection {
  socket: Socket
  /** The address that was really dialled; the proxy's where there is one. */
  address: string
  family: Family
  dnsMs: number
  connectMs: number
  /** Making the tunnel through the proxy; absent without one. */
  proxyMs?: number
}

/** Options of a TLS handshake on a standing connection. */
export interface Handshake {
  /** Sent as SNI (unless an address) and checked against the certificate. */
  serverName: string
  settings?: import('../contract/tls.ts').TlsSettings | undefined
}

export interface SecureConnection {
  socket: import('node:tls').TLSSocket
  tlsMs: number
  /** Protocol, cipher, chain and what is wrong with it; complete even when verification failed. */
  peer: PeerFacts
}

/** Told as an attempt goes on, so that a deadline can be blamed on the phase it fell into. */
export interface Progress {
  phase: Phase
}

export interface Dialler {
  /** Addresses of a name, in the resolver's order. Rejects with TargetFailure (DNS_…, ADDRESS_BLOCKED). */
  resolve(host: string, family: Family, signal: AbortSignal): Promise<string[]>
  /** Rejects with TargetFailure (DNS_…, CONNECT_…, PROXY_…, ADDRESS_BLOCKED, RESOURCES_EXHAUSTED). */
  connect(endpoint: Endpoint, progress: Progress, signal: AbortSignal): Promise<Connection>
  /** Rejects with TargetFailure (TLS_PROTOCOL, TLS_NOT_SPOKEN, …); a bad certificate is no rejection, see `peer.error`. */
  secure(
    socket: Socket,
    handshake: Handshake,
    progress: Progress,
    signal: AbortSignal,
  ): Promise<SecureConnection>
}
