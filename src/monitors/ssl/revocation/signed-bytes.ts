// Whether a signature of an OCSP response or a revocation list is that of a key.
import { constants, type KeyObject, verify } from 'node:crypto'
import {
  contextTag,
  type Element,
  Elements,
  oidOf,
  smallInteger,
} from '../../../network/tls/der.ts'

/** Why an answer or a list says nothing: about another certificate, out of date, not signed by the issuer… */
export class Unusable extends Error {}

/** The names of hashes by their object identifiers. */
export const HASHES: Readonly<Record<string, string>> = {
  '1.3.14.3.2.26': 'sha1',
  '2.16.840.1.101.3.4.2.1': 'sha256',
  '2.16.840.1.101.3.4.2.2': 'sha384',
  '2.16.840.1.101.3.4.2.3': 'sha512',
  '2.16.840.1.101.3.4.2.4': 'sha224',
}

/** Signature algorithm → hash; null where the algorithm has its own (RFC 3279, 4055, 5758, 8410). */
const ALGORITHMS: Record<string, string | null> = {
  '1.2.840.113549.1.1.5': 'sha1',
  '1.2.840.113549.1.1.11': 'sha256',
  '1.2.840.113549.1.1.12': 'sha384',
  '1.2.840.113549.1.1.13': 'sha512',
  '1.2.840.113549.1.1.14': 'sha224',
  '1.2.840.10045.4.1': 'sha1',
  '1.2.840.10045.4.3.1': 'sha224',
  '1.2.840.10045.4.3.2': 'sha256',
  '1.2.840.10045.4.3.3': 'sha384',
  '1.2.840.10045.4.3.4': 'sha512',
  '1.2.840.10040.4.3': 'sha1',
  '2.16.840.1.101.3.4.3.2': 'sha256',
  '1.3.101.112': null,
  '1.3.101.113': null,
}

const PSS = '1.2.840.113549.1.1.10'

/**
 * Whether `signature` is the key's over `bytes` by the AlgorithmIdentifier. False for algorithms that are
 * not known. Runs outside the event loop: a revocation list may be megabytes. Throws DerFault.
 */
export function isSignedBy(
  algorithm: Element,
  bytes: Buffer,
  signature: Buffer,
  key: KeyObject,
): Promise<boolean> {
  const parts = new Elements(algorithm)
  const oid = oidOf(parts.next())
  const pss = oid === PSS ? pssOf(parts.next()) : undefined
  const hash = pss === undefined ? ALGORITHMS[oid] : pss.hash
  if (hash === undefined) return Promise.resolve(false)
  const padding =
    pss === undefined
      ? { key }
      : { key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: pss.saltLength }
  return new Promise((resolve) => {
    try {
      verify(hash, bytes, padding, signature, (error, holds) => resolve(error === null && holds))
    } catch {
      // A key of another kind than the algorithm's.
      resolve(false)
    }
  })
}

/** RSASSA-PSS-params (RFC 4055, 3.1). */
function pssOf(parameters: Element): { hash: string | undefined; saltLength: number } {
  const parts = new Elements(parameters)
  const given = parts.optional(contextTag(0))
  parts.optional(contextTag(1))
  const salt = parts.optional(contextTag(2))
  return {
    hash:
      given === undefined ? 'sha1' : HASHES[oidOf(new Elements(new Elements(given).next()).next())],
    saltLength: salt === undefined ? 20 : smallInteger(new Elements(salt).next()),
  }
}
