// Reads the certificates of a peer at a low cost. Node's getPeerX509Certificate leaks the memory of every certificate
// after the first one, and getPeerCertificate(true) needs a sixth of a handshake's time. So a chain is read once as it
// was sent, and compared again after a minute only.
import { X509Certificate } from 'node:crypto'
import type { DetailedPeerCertificate, TLSSocket } from 'node:tls'
import { contextTag, DerFault, elementAt, Elements, encodingOf, TAG } from './der.ts'
import { LeastRecentlyUsed } from '../least-recently-used.ts'

/** The same object for the same certificates. */
export interface PeerCertificates {
  leaf: X509Certificate
  /** In the order of the peer, `leaf` first. */
  sent: readonly X509Certificate[]
}

interface Recent {
  /** DER of the leaf, and OpenSSL's verdict on the chain: a different verdict may mean a different chain. */
  shown: Buffer
  verdict: string | undefined
  certificates: PeerCertificates
  /** By performance.now(). */
  readAt: number
}

/** A chain needs some 15 KB. */
const CHAINS_MAX = 2000
/** For this time, the same leaf of a peer is assumed to come with the same chain. */
const AGE_MS_MAX = 60_000
/** Reading a chain as sent leaks some 5 KB each time; after so many, it is built from issuer links. */
const READS_MAX = 5000
const LENGTH_MAX = 16

const recent = new LeastRecentlyUsed<string, Recent>(CHAINS_MAX)
const chains = new LeastRecentlyUsed<string, PeerCertificates>(CHAINS_MAX)
let reads = 0

/** The certificates of the peer at `where` after a handshake; undefined when it sent none. */
export function peerCertificates(socket: TLSSocket, where: string): PeerCertificates | undefined {
  const shown = leafOf(socket.getSession())
  const verdict = reasonOf(socket)
  const now = performance.now()
  const known = recent.get(where)
  if (
    known !== undefined &&
    shown?.equals(known.shown) === true &&
    known.verdict === verdict &&
    now - known.readAt < AGE_MS_MAX
  ) {
    return known.certificates
  }
  const certificates = read(socket)
  if (shown !== undefined && certificates !== undefined) {
    recent.set(where, { shown, verdict, certificates, readAt: now })
  }
  return certificates
}

/** OpenSSL's reason for a chain that does not verify: mostly a string, although Node's types declare an Error. */
export function reasonOf({ authorizationError }: TLSSocket): string | undefined {
  const error = authorizationError as NodeJS.ErrnoException | string | null | undefined
  if (error === null || error === undefined) return undefined
  return typeof error === 'string' ? error : (error.code ?? 'UNKNOWN')
}

/** Limit of the bytes of a session before its DER form, where Node stores its context. */
const PREFIX_BYTES_MAX = 600

/**
 * The peer's certificate in a session (OpenSSL's SSL_SESSION, `[3] peer`), where it is the cheapest to
 * read; undefined when it is not found there, which only costs time.
 */
function leafOf(session: Buffer | undefined): Buffer | undefined {
  if (session === undefined) return undefined
  const start = startOfDer(session)
  if (start < 0) return undefined
  try {
    const parts = new Elements(elementAt(session, start, session.length))
    while (parts.nextTag !== undefined) {
      const part = parts.next()
      if (part.tag === contextTag(3)) return encodingOf(new Elements(part).next(TAG.SEQUENCE))
    }
    return undefined
  } catch (error) {
    if (error instanceof DerFault) return undefined
    throw error
  }
}

/** Start of a long sequence that ends with the buffer; -1 without one. */
function startOfDer(session: Buffer): number {
  const last = Math.min(PREFIX_BYTES_MAX, session.length - 4)
  for (let at = 0; at <= last; at++) {
    if (session[at] !== TAG.SEQUENCE || session[at + 1] !== 0x82) continue
    if (at + 4 + session.readUInt16BE(at + 2) === session.length) return at
  }
  return -1
}

function read(socket: TLSSocket): PeerCertificates | undefined {
  const linked = linkedFrom(socket.getPeerCertificate(true))
  if (linked.length === 0) return undefined
  const key = linked.map(({ fingerprint256 }) => fingerprint256).join()
  let certificates = chains.get(key)
  if (certificates === undefined) {
    const sent = reads++ < READS_MAX ? sentBy(socket) : followed(linked)
    const [leaf] = sent
    if (leaf === undefined) return undefined
    certificates = { leaf, sent }
    chains.set(key, certificates)
  }
  return certificates
}

/** Follows the issuers, including those that are only in our trust store. */
function linkedFrom(first: DetailedPeerCertificate | undefined): DetailedPeerCertificate[] {
  const linked: DetailedPeerCertificate[] = []
  let next: DetailedPeerCertificate | undefined = first
  while (next?.raw !== undefined && !linked.includes(next) && linked.length < LENGTH_MAX) {
    linked.push(next)
    next = next.issuerCertificate
  }
  return linked
}

function sentBy(socket: TLSSocket): X509Certificate[] {
  const sent: X509Certificate[] = []
  let next = socket.getPeerX509Certificate()
  while (next !== undefined && sent.length < LENGTH_MAX) {
    sent.push(next)
    next = next.issuerCertificate
  }
  return sent
}

/** Whether a link was sent is unknown: a self-signed last one is assumed to come from our trust store. */
function followed(linked: readonly DetailedPeerCertificate[]): X509Certificate[] {
  const certificates = linked.map(({ raw }) => new X509Certificate(raw))
  const last = certificates.at(-1)
  const isOurs = certificates.length > 1 && last?.subject === last?.issuer
  return isOurs ? certificates.slice(0, -1) : certificates
}
