// Parts of a certificate (RFC 5280) that Node does not show: addresses for revocation, whether an OCSP staple is
// required, certificate transparency logs, and the raw parts for matching revocation entries.
import {
  bitsOf,
  childrenOf,
  contentOf,
  contextTag,
  DerFault,
  type Element,
  Elements,
  encodingOf,
  integerHex,
  oidOf,
  smallInteger,
  TAG,
  wholeElement,
} from './der.ts'

/** A signed certificate timestamp (RFC 6962); its signature is not checked, which would need a list of logs. */
export interface SignedTimestamp {
  /** Id of the log, hex. */
  logId: string
  /** ISO 8601, in UTC. */
  at: string
}

/** The parts of one certificate. Buffers are views of its DER form. */
export interface CertificateStructure {
  /** Content of the serial number's INTEGER, and the same in lower-case hex. */
  serial: Buffer
  serialHex: string
  issuerName: Buffer
  subjectName: Buffer
  /** The bits of the public key, as OCSP hashes them. */
  publicKey: Buffer
  /** Asks for an OCSP staple (RFC 7633). */
  mustStaple: boolean
  ocspUrls: string[]
  crlUrls: string[]
  timestamps: SignedTimestamp[]
  /** Object identifiers of the extensions that nobody may ignore. */
  criticalExtensions: string[]
  /** DER of the values of subjectAltName and nameConstraints. */
  altNames?: Buffer
  nameConstraints?: Buffer
}

const EXTENSION = {
  altNames: '2.5.29.17',
  nameConstraints: '2.5.29.30',
  crlDistributionPoints: '2.5.29.31',
  authorityInfoAccess: '1.3.6.1.5.5.7.1.1',
  tlsFeature: '1.3.6.1.5.5.7.1.24',
  timestamps: '1.3.6.1.4.1.11129.2.4.2',
} as const

const OCSP_METHOD = '1.3.6.1.5.5.7.48.1'
/** The TLS extension status_request, by its number. */
const STATUS_REQUEST = 5
const URLS_MAX = 10
const URL_LENGTH_MAX = 2048
const TIMESTAMPS_MAX = 20

/** Reads a certificate's DER form; undefined when it is none. Never throws. */
export function readCertificate(raw: Buffer): CertificateStructure | undefined {
  try {
    return structureOf(raw)
  } catch (error) {
    if (error instanceof DerFault) return undefined
    throw error
  }
}

function structureOf(raw: Buffer): CertificateStructure {
  const certificate = new Elements(wholeElement(raw, TAG.SEQUENCE))
  const body = new Elements(certificate.next(TAG.SEQUENCE))
  body.optional(contextTag(0)) // version
  const serial = body.next(TAG.INTEGER)
  body.next(TAG.SEQUENCE) // signature algorithm
  const issuer = body.next(TAG.SEQUENCE)
  body.next(TAG.SEQUENCE) // validity
  const subject = body.next(TAG.SEQUENCE)
  const key = new Elements(body.next(TAG.SEQUENCE))
  key.next(TAG.SEQUENCE)
  const structure: CertificateStructure = {
    serial: contentOf(serial),
    serialHex: integerHex(serial),
    issuerName: encodingOf(issuer),
    subjectName: encodingOf(subject),
    publicKey: bitsOf(key.next(TAG.BIT_STRING)),
    mustStaple: false,
    ocspUrls: [],
    crlUrls: [],
    timestamps: [],
    criticalExtensions: [],
  }
  body.optional(contextTag(1, false))
  body.optional(contextTag(2, false))
  const wrapped = body.optional(contextTag(3))
  if (wrapped === undefined) return structure
  for (const { id, critical, value } of extensionList(new Elements(wrapped).next(TAG.SEQUENCE))) {
    if (critical) structure.criticalExtensions.push(id)
    readExtension(structure, id, value)
  }
  return structure
}

/** Object identifier → DER of the value, of each extension in the sequence. Throws DerFault. */
export function extensionsOf(sequence: Element): Map<string, Buffer> {
  return new Map(extensionList(sequence).map(({ id, value }) => [id, value]))
}

function extensionList(sequence: Element): { id: string; critical: boolean; value: Buffer }[] {
  return childrenOf(sequence).map((one) => {
    const parts = new Elements(one)
    const id = oidOf(parts.next())
    const flag = parts.optional(TAG.BOOLEAN)
    const critical = flag !== undefined && contentOf(flag)[0] !== 0
    return { id, critical, value: contentOf(parts.next(TAG.OCTET_STRING)) }
  })
}

/** Skips an extension that cannot be read: the rest of the certificate is still used. */
function readExtension(structure: CertificateStructure, id: string, value: Buffer): void {
  try {
    if (id === EXTENSION.tlsFeature) {
      const features = childrenOf(wholeElement(value, TAG.SEQUENCE)).map(smallInteger)
      structure.mustStaple = features.includes(STATUS_REQUEST)
    } else if (id === EXTENSION.authorityInfoAccess) structure.ocspUrls = ocspUrlsIn(value)
    else if (id === EXTENSION.crlDistributionPoints) structure.crlUrls = crlUrlsIn(value)
    else if (id === EXTENSION.timestamps) structure.timestamps = signedTimestamps(value)
    else if (id === EXTENSION.altNames) structure.altNames = value
    else if (id === EXTENSION.nameConstraints) structure.nameConstraints = value
  } catch (error) {
    if (!(error instanceof DerFault)) throw error
  }
}

function ocspUrlsIn(value: Buffer): string[] {
  const urls: string[] = []
  for (const one of childrenOf(wholeElement(value, TAG.SEQUENCE))) {
    const parts = new Elements(one)
    if (oidOf(parts.next()) === OCSP_METHOD) addUrl(urls, parts.next())
  }
  return urls
}

function crlUrlsIn(value: Buffer): string[] {
  const urls: string[] = []
  for (const point of childrenOf(wholeElement(value, TAG.SEQUENCE))) {
    const name = new Elements(point).optional(contextTag(0))
    if (name !== undefined) for (const url of urlsOfPoint(name)) urls.push(url)
  }
  return urls.slice(0, URLS_MAX)
}

/** The URLs of a DistributionPointName, `[0]` around it (RFC 5280, 4.2.1.13). Throws DerFault. */
export function urlsOfPoint(name: Element): string[] {
  const urls: string[] = []
  const full = new Elements(name).optional(contextTag(0))
  for (const one of full === undefined ? [] : childrenOf(full)) addUrl(urls, one)
  return urls
}

/** A GeneralName that is a URL. */
function addUrl(urls: string[], name: Element): void {
  if (name.tag !== contextTag(6, false) || urls.length >= URLS_MAX) return
  if (name.end - name.start <= URL_LENGTH_MAX) urls.push(contentOf(name).toString('latin1'))
}

/** The list of RFC 6962, 3.3, in its OCTET STRING; what cannot be read ends it. Throws DerFault. */
export function signedTimestamps(value: Buffer): SignedTimestamp[] {
  return timestampList(contentOf(wholeElement(value, TAG.OCTET_STRING)))
}

/** The bare list, as a TLS extension carries it. Never throws. */
export function timestampList(list: Buffer): SignedTimestamp[] {
  const found: SignedTimestamp[] = []
  let at = 2
  while (at + 2 <= list.length && found.length < TIMESTAMPS_MAX) {
    const length = list.readUInt16BE(at)
    at += 2
    if (length < 41 || at + length > list.length) break
    const logId = list.subarray(at + 1, at + 33).toString('hex')
    const ms = Number(list.readBigUInt64BE(at + 33))
    // Version 1 is written as 0; others may look different.
    if (list[at] === 0 && ms <= 8.64e15) found.push({ logId, at: new Date(ms).toISOString() })
    at += length
  }
  return found
}
