// Security baseline: requirements of a server in addition to a valid chain, and the resulting grade.
import {
  type BaselineSeverity,
  type SecurityBaseline,
  SEVERITIES,
  TLS_VERSIONS,
} from './definition.ts'
import type { Chain, ChainCertificate } from './chain.ts'

export type TlsVersion = (typeof TLS_VERSIONS)[number]

/** Measurements that the baseline evaluates. */
export interface Measured {
  connection: { tlsVersion: string; versions?: readonly string[]; cipherSuite: string }
  chain: Chain
  /** A stapled OCSP response that says so. */
  stapledGood: boolean
  timestamps: number
}

export type BaselineRule = Exclude<keyof SecurityBaseline, 'enabled'>

/** A violated rule. */
export interface Finding {
  rule: BaselineRule
  severity: BaselineSeverity
  /** One sentence. */
  message: string
}

/** Grades: A no violation; A- only ignored ones; B one that degrades; F one that fails. */
export type Grade = 'A' | 'A-' | 'B' | 'F'

export interface BaselineOutcome {
  verdict: 'pass' | 'warn' | 'fail'
  grade: Grade
  /** Most severe first. */
  findings: Finding[]
}

/** Evaluates the measurements against the baseline. Pure. */
export function evaluateBaseline(baseline: SecurityBaseline, measured: Measured): BaselineOutcome {
  const findings: Finding[] = []
  for (const [rule, broken] of Object.entries(RULES) as [BaselineRule, Rule][]) {
    const message = broken(baseline, measured)
    if (message !== undefined) findings.push({ rule, severity: baseline[rule].severity, message })
  }
  findings.sort((a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity))
  const worst = findings[0]?.severity
  if (worst === 'fail') return { verdict: 'fail', grade: 'F', findings }
  if (worst === 'degrade') return { verdict: 'warn', grade: 'B', findings }
  return { verdict: 'pass', grade: worst === undefined ? 'A' : 'A-', findings }
}

/** Error text of a violated rule, or undefined. */
type Rule = (baseline: SecurityBaseline, measured: Measured) => string | undefined

const RULES: Record<BaselineRule, Rule> = {
  minTLSVersion: ({ minTLSVersion }, { connection: { tlsVersion, versions = [] } }) =>
    tooOld([tlsVersion, ...versions], minTLSVersion.value),
  minKeySizeBits: ({ minKeySizeBits }, measured) => tooSmall(measured, minKeySizeBits.value),
  weakSignatureAlgorithm: (_, measured) => {
    const weak = evaluated(measured).find(({ signatureAlgorithm }) =>
      WEAK_HASH.test(signatureAlgorithm),
    )
    return weak && `${weak.subject || 'the certificate'} is signed with ${weak.signatureAlgorithm}`
  },
  weakCipherSuite: (_, { connection: { cipherSuite } }) =>
    WEAK_CIPHER.test(cipherSuite) ? `the cipher suite is ${cipherSuite}` : undefined,
  knownBadCA: (_, { chain }) => {
    const bad = chain.shown.built
      .flatMap(({ subject, issuer }) => [subject, issuer])
      .find((name) => KNOWN_BAD.test(name))
    return bad && `the chain contains an authority that browsers no longer trust: ${bad}`
  },
  recommendedTLSVersion: ({ recommendedTLSVersion: { value } }, { connection }) =>
    tooOld([connection.tlsVersion], value),
  recommendedKeySizeBits: ({ recommendedKeySizeBits }, measured) =>
    tooSmall(measured, recommendedKeySizeBits.value),
  ocspMustStapleRespected: (_, { chain, stapledGood }) =>
    chain.certificate.mustStaple && !stapledGood
      ? 'the certificate requires an OCSP staple (must-staple), and no valid one was received'
      : undefined,
  sctPresent: (_, { timestamps }) =>
    timestamps === 0 ? 'no signed certificate timestamp (RFC 6962) was received' : undefined,
}

/** The server's and the intermediate certificates, without that of the authority. */
function evaluated({ chain }: Measured): readonly ChainCertificate[] {
  const { built, anchored } = chain.shown
  return anchored && built.length > 1 ? built.slice(0, -1) : built
}

function tooOld(accepted: readonly string[], least: TlsVersion): string | undefined {
  const order = (version: string) => (TLS_VERSIONS as readonly string[]).indexOf(version)
  const [oldest = ''] = accepted.toSorted((one, other) => order(one) - order(other))
  if (order(oldest) >= order(least)) return undefined
  return `${oldest} is accepted; the minimum is ${least}`
}

function tooSmall(measured: Measured, bits: number): string | undefined {
  for (const one of evaluated(measured)) {
    const { keySizeBits, keyAlgorithm, subject } = one
    if (keySizeBits === undefined || strengthOf(one) >= bits) continue
    const key = `${keyAlgorithm} key of ${subject || 'the certificate'}`
    return `the ${key} has ${keySizeBits} bits; RSA ${bits} or stronger is required`
  }
  return undefined
}

/** Keys on curves in bits of an RSA key of the same strength (NIST SP 800-57 part 1, table 2). */
function strengthOf({ keyAlgorithm, keySizeBits = 0 }: ChainCertificate): number {
  if (keyAlgorithm === 'RSA' || keyAlgorithm === 'DSA') return keySizeBits
  if (keySizeBits >= 512) return 15_360
  if (keySizeBits >= 384) return 7680
  if (keySizeBits >= 256) return 3072
  return keySizeBits >= 224 ? 2048 : 1024
}

const WEAK_HASH = /md2|md4|md5|sha-?1(?!\d)/i
/** No encryption, no authentication, or ciphers and hashes that are broken. */
const WEAK_CIPHER = /NULL|anon|EXPORT|RC4|RC2|IDEA|_DES_|_3DES_|DES-CBC|MD5/

/** Distrusted authorities, and authorities with published keys, by their names in certificates. */
const ORGANISATIONS = [
  'DigiNotar\\b',
  'WoSign CA Limited\\b',
  'StartCom Ltd\\.',
  'CNNIC\\b',
  'China Internet Network Information Center\\b',
  'TrustCor Systems\\b',
  'E-Tu\\S*ra EBG\\b',
  'AC Camerfirma\\b',
  'Superfish, Inc\\.',
  'Komodia\\b',
]
const NAMES = ['eDellRoot', 'DSDTestProvider', 'Qaznet Trust Network']
// One expression, since all names of a chain are compared with it.
const KNOWN_BAD = new RegExp(
  `\\b(?:O=(?:${ORGANISATIONS.join('|')})|CN=(?:${NAMES.join('|')})\\b)`,
  'i',
)
