// TLS settings of a monitor: an addition of ours to the wire form, the same for every type that dials.
import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto'
import * as z from 'zod'

const pem = (what: string, label: RegExp) =>
  z.string().regex(label, { error: `must be ${what} in PEM form (-----BEGIN …)`, abort: true })

const VERSIONS = ['TLSv1', 'TLSv1.1', 'TLSv1.2', 'TLSv1.3'] as const

/** A version of TLS that is spelled as OpenSSL does (`TLSv1.2`) or without the v; parsed to one of `versions`. */
export function tlsVersion<const V extends readonly string[]>(versions: V) {
  return z.preprocess(
    (given) => versions.find((one) => versionNumber(one) === versionNumber(given)) ?? given,
    z.enum(versions),
  )
}

function versionNumber(version: unknown): string {
  return String(version)
    .replace(/^TLSv?/, '')
    .replace(/^1$/, '1.0')
}

const PEM_CERTIFICATE =
  /-----BEGIN (?:TRUSTED )?CERTIFICATE-----[^-]*-----END (?:TRUSTED )?CERTIFICATE-----/g

const Fields = z.strictObject({
  /** Certificate authorities to trust instead of the built-in ones. */
  ca: pem('one or more certificates', /-----BEGIN (TRUSTED )?CERTIFICATE-----/).optional(),
  /** Client certificate with its chain, leaf first. */
  certificate: pem('one or more certificates', /-----BEGIN CERTIFICATE-----/).optional(),
  privateKey: pem('a private key', /-----BEGIN [A-Z ]*PRIVATE KEY-----/).optional(),
  passphrase: z.string().optional(),
  /** Name sent in the handshake and checked against the certificate, instead of the host. */
  serverName: z.string().min(1).max(253).optional(),
  minVersion: tlsVersion(VERSIONS).optional(),
  maxVersion: tlsVersion(VERSIONS).optional(),
})

/** How to speak TLS with the target. All fields are optional. */
export const TlsSettings = Fields.superRefine((settings, context) => {
  for (const problem of tlsProblems(settings)) context.addIssue({ code: 'custom', ...problem })
})
export type TlsSettings = z.infer<typeof TlsSettings>

// Validated here rather than in the first handshake, whose OpenSSL message would reach the user.
function* tlsProblems(settings: z.infer<typeof Fields>) {
  const { ca, certificate, privateKey, minVersion, maxVersion } = settings
  if (minVersion !== undefined && maxVersion !== undefined) {
    if (VERSIONS.indexOf(minVersion) > VERSIONS.indexOf(maxVersion)) {
      yield { path: ['minVersion'], message: 'must not be newer than maxVersion' }
    }
  }
  if (ca !== undefined && firstCertificate(ca) === undefined) {
    yield { path: ['ca'], message: 'contains an invalid certificate' }
  }
  const leaf = certificate === undefined ? undefined : firstCertificate(certificate)
  if (certificate !== undefined && leaf === undefined) {
    yield { path: ['certificate'], message: 'contains an invalid certificate' }
  }
  if (certificate !== undefined && privateKey === undefined) {
    yield { path: ['certificate'], message: 'needs its privateKey' }
  }
  if (privateKey === undefined) return
  if (certificate === undefined) {
    yield { path: ['privateKey'], message: 'needs its certificate' }
  }
  const key = keyOf(privateKey, settings.passphrase)
  if (typeof key === 'string') yield { path: ['privateKey'], message: key }
  else if (leaf !== undefined && !leaf.checkPrivateKey(key)) {
    yield { path: ['privateKey'], message: 'does not belong to the certificate' }
  }
}

/** The first certificate of a bundle; undefined when any of them cannot be read. */
function firstCertificate(bundle: string): X509Certificate | undefined {
  try {
    const all = (bundle.match(PEM_CERTIFICATE) ?? []).map((one) => new X509Certificate(one))
    return all[0]
  } catch {
    return undefined
  }
}

function keyOf(pemText: string, passphrase: string | undefined): KeyObject | string {
  try {
    return createPrivateKey(
      passphrase === undefined ? { key: pemText } : { key: pemText, passphrase },
    )
  } catch {
    const encrypted = pemText.includes('ENCRYPTED')
    if (!encrypted) return 'is not a valid private key'
    return passphrase === undefined
      ? 'is encrypted; give its passphrase'
      : 'cannot be decrypted with this passphrase'
  }
}
