// Names the rule of RFC 5280 that a chain breaks, where OpenSSL's reason does not: Node passes some on as UNSPECIFIED.
import type { X509Certificate } from 'node:crypto'
import {
  type CertificateStructure,
  readCertificate,
} from '../../network/tls/certificate-structure.ts'
import {
  childrenOf,
  contentOf,
  contextTag,
  DerFault,
  type Element,
  Elements,
  TAG,
  wholeElement,
} from '../../network/tls/der.ts'
import { ipv6Text } from '../../network/ip-address.ts'
import { oneLine } from '../../network/tls/facts.ts'

/** A broken rule. */
export interface BrokenRule {
  rule: 'critical-extension' | 'permitted-names' | 'excluded-names' | 'not-an-authority'
  /** Subject of the certificate that breaks the rule, or of the authority that sets it. */
  certificate: string
  /** One sentence. */
  message: string
}

/** The rule that the chain, the server's certificate first, breaks by OpenSSL's `reason`; undefined for others. */
export function brokenRule(
  reason: string,
  built: readonly X509Certificate[],
): BrokenRule | undefined {
  if (reason === 'INVALID_CA' || reason === 'INVALID_PURPOSE') {
    const issuer = built.slice(1).find(({ ca }) => !ca)
    return issuer && notAnAuthority(issuer)
  }
  if (reason !== 'UNSPECIFIED') return undefined
  const chain = built.flatMap((one) => readCertificate(one.raw) ?? [])
  if (chain.length < built.length) return undefined
  const nameOf = (at: number) => named(built[at]?.subject)
  return unknownExtension(chain, nameOf) ?? violatedConstraint(chain, nameOf)
}

/** The broken rule of a certificate that signs another one and may not. */
export function notAnAuthority({ subject }: X509Certificate): BrokenRule {
  const certificate = named(subject)
  const message = `${certificate} is not a certificate authority`
  return { rule: 'not-an-authority', certificate, message }
}

type NameOf = (at: number) => string

const named = (subject: string | undefined) => oneLine(subject) || 'the certificate'

/** Extensions that OpenSSL knows (X509_supported_extension); another critical one is refused. */
const KNOWN_EXTENSIONS: ReadonlySet<string> = new Set([
  '2.5.29.15', // keyUsage
  '2.5.29.17', // subjectAltName
  '2.5.29.19', // basicConstraints
  '2.5.29.30', // nameConstraints
  '2.5.29.31', // cRLDistributionPoints
  '2.5.29.32', // certificatePolicies
  '2.5.29.33', // policyMappings
  '2.5.29.36', // policyConstraints
  '2.5.29.37', // extKeyUsage
  '2.5.29.54', // inhibitAnyPolicy
  '1.3.6.1.5.5.7.1.7', // ipAddrBlocks
  '1.3.6.1.5.5.7.1.8', // autonomousSysIds
  '1.3.6.1.5.5.7.1.14', // proxyCertInfo
  '1.3.6.1.5.5.7.48.1.5', // OCSP no check
  '2.16.840.1.113730.1.1', // Netscape certificate type
])

function unknownExtension(
  chain: readonly CertificateStructure[],
  nameOf: NameOf,
): BrokenRule | undefined {
  for (const [at, { criticalExtensions }] of chain.entries()) {
    const id = criticalExtensions.find((one) => !KNOWN_EXTENSIONS.has(one))
    if (id === undefined) continue
    const certificate = nameOf(at)
    const message = `${certificate} has an unknown critical extension, ${id}`
    return { rule: 'critical-extension', certificate, message }
  }
  return undefined
}

/** Comparisons of a name with a subtree, at most, for a whole chain. */
const COMPARISONS_MAX = 2 ** 20

/** Compares the names of the server's certificate with the constraints of its authorities (RFC 5280, 4.2.1.10). */
function violatedConstraint(
  chain: readonly CertificateStructure[],
  nameOf: NameOf,
): BrokenRule | undefined {
  try {
    const { altNames } = chain[0] as CertificateStructure
    const names =
      altNames === undefined ? [] : comparable(childrenOf(wholeElement(altNames, TAG.SEQUENCE)))
    let comparisons = 0
    for (const [at, { nameConstraints }] of chain.entries()) {
      // Those of the server's certificate are for what it would issue.
      if (at === 0 || nameConstraints === undefined) continue
      const parts = new Elements(wholeElement(nameConstraints, TAG.SEQUENCE))
      const [permitted, excluded] = [subtrees(parts, 0), subtrees(parts, 1)]
      comparisons += names.length * (permitted.length + excluded.length)
      if (comparisons > COMPARISONS_MAX) return undefined
      for (const name of names) {
        const certificate = nameOf(at)
        const base = excluded.find((one) => isWithin(name, one))
        if (base !== undefined) {
          const message = `${certificate} excludes ${textOf(base)}, and with it ${textOf(name)}`
          return { rule: 'excluded-names', certificate, message }
        }
        // A kind of names without a permitted subtree is not limited.
        const allowed = permitted.filter(({ tag }) => tag === name.tag)
        if (allowed.length === 0 || allowed.some((one) => isWithin(name, one))) continue
        const only = allowed.slice(0, 10).map(textOf).join(', ')
        const message = `${certificate} permits only ${only}, not ${textOf(name)}`
        return { rule: 'permitted-names', certificate, message }
      }
    }
  } catch (error) {
    if (!(error instanceof DerFault)) throw error
  }
  return undefined
}

/** The names of permitted (0) or excluded (1) subtrees. Throws DerFault. */
function subtrees(constraints: Elements, number: 0 | 1): Name[] {
  const list = constraints.optional(contextTag(number))
  return list === undefined
    ? []
    : comparable(childrenOf(list).map((one) => new Elements(one).next()))
}

const DNS_NAME = contextTag(2, false)
const IP_ADDRESS = contextTag(7, false)

/** A host name or an address, or a subtree of them. */
interface Name {
  tag: number
  content: Buffer
  /** A host name in lower case. */
  host: string
}

/** The host names and addresses among GeneralNames; other kinds are not compared. */
function comparable(names: readonly Element[]): Name[] {
  return names
    .filter(({ tag }) => tag === DNS_NAME || tag === IP_ADDRESS)
    .map((one) => {
      const content = contentOf(one)
      return { tag: one.tag, content, host: content.toString('latin1').toLowerCase() }
    })
}

/** Whether a host name or an address is within a subtree. */
function isWithin(name: Name, base: Name): boolean {
  if (name.tag !== base.tag) return false
  const [own, limit] = [name.content, base.content]
  if (name.tag === DNS_NAME) {
    const [host, domain] = [name.host, base.host]
    // With a dot in front it is for names below alone, as in OpenSSL.
    if (domain === '' || domain.startsWith('.')) return host.endsWith(domain)
    return `.${host}`.endsWith(`.${domain}`)
  }
  if (limit.length !== 2 * own.length) return false
  const mask = limit.subarray(own.length)
  return own.every((byte, at) => ((byte ^ (limit[at] as number)) & (mask[at] as number)) === 0)
}

/** A GeneralName for messages: `allowed.test`, `192.0.2.0/24`. */
function textOf({ tag, content }: Name): string {
  if (tag !== IP_ADDRESS) return content.toString('latin1')
  const length = content.length < 16 ? 4 : 16
  const address = length === 4 ? content.subarray(0, 4).join('.') : ipv6Text(content)
  const ones = Array.from(content.subarray(length), (byte) => byte.toString(2).replaceAll('0', ''))
  return ones.length === 0 ? address : `${address}/${ones.join('').length}`
}
