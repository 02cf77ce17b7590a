// Sources of the assertions of an SSL monitor.
import { TLS_VERSIONS } from './definition.ts'
import type { AssertionSources } from '../assertions/assertions.ts'
import type { SslProbe } from './report.ts'

/** The sources of one probe; the report is serialized only if an assertion uses it. */
export function sourcesOf(probe: SslProbe, allNames: () => string[]): AssertionSources {
  let text: string | undefined
  const report = () => (text ??= JSON.stringify({ ...probe, failures: undefined }))
  const certificate = (name: string, target: string): unknown => {
    if (name === 'sans') return allNames()
    return inSpellingOf(target, name, valueIn(probe.certificate, name))
  }
  return {
    CERTIFICATE: { kind: 'property', value: certificate },
    CONNECTION: {
      kind: 'property',
      value: (name) => valueIn(probe.connection, name),
      order: (name) => (name === 'tlsVersion' ? TLS_VERSIONS : undefined),
    },
    RESPONSE_TIME: { kind: 'value', value: () => probe.phases.totalMs },
    JSON_RESPONSE: { kind: 'json', text: report },
    TEXT_RESPONSE: { kind: 'text', text: report },
  }
}

function valueIn(facts: object | undefined, name: string): unknown {
  return (facts as Record<string, unknown> | undefined)?.[name]
}

/**
 * The value, or the target if both are equivalent: fingerprints with or without colons, names of algorithms
 * from OpenSSL or Go.
 */
function inSpellingOf(target: string, name: string, value: unknown): unknown {
  const spelling = SPELLINGS[name]
  if (spelling === undefined || typeof value !== 'string') return value
  return spelling(value) === spelling(target) ? target : value
}

const hex = (text: string) => text.replaceAll(/[\s:]/g, '').toLowerCase()

const SPELLINGS: Record<string, (text: string) => string> = {
  fingerprintSha256: hex,
  issuerFingerprintSha256: hex,
  serialNumber: (text) =>
    hex(text)
      .replace(/^0x/, '')
      .replace(/^0+(?=.)/, ''),
  keyAlgorithm: (text) => text.toLowerCase().replace(/^(?:ec|id-ecpublickey)$/, 'ecdsa'),
  signatureAlgorithm: (text) =>
    text
      .toLowerCase()
      .replace(/^(sha\d+)withrsaencryption$/, '$1-rsa')
      .replace(/^ecdsa-with-(sha\d+)$/, 'ecdsa-$1'),
}
