// Maps OpenSSL's error codes for certificates and handshakes to stable failure codes.
import type { FailureCode } from '../../contract/failure.ts'

const CERTIFICATE: Record<string, FailureCode> = {
  CERT_HAS_EXPIRED: 'TLS_EXPIRED',
  CERT_NOT_YET_VALID: 'TLS_NOT_YET_VALID',
  ERR_TLS_CERT_ALTNAME_INVALID: 'TLS_HOSTNAME_MISMATCH',
  HOSTNAME_MISMATCH: 'TLS_HOSTNAME_MISMATCH',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'TLS_SELF_SIGNED',
  SELF_SIGNED_CERT_IN_CHAIN: 'TLS_UNTRUSTED',
  UNABLE_TO_GET_ISSUER_CERT: 'TLS_UNTRUSTED',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'TLS_UNTRUSTED',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'TLS_UNTRUSTED',
  CERT_UNTRUSTED: 'TLS_UNTRUSTED',
  CERT_REJECTED: 'TLS_UNTRUSTED',
  CERT_REVOKED: 'TLS_REVOKED',
}

/** The code for the error with which a certificate did not verify (X509_V_ERR_… without its prefix). */
export function certificateCode(reason: string): FailureCode {
  return CERTIFICATE[reason] ?? 'TLS_CERTIFICATE_INVALID'
}

// Errors of OpenSSL for bytes that are no TLS record: an HTTP answer, a banner, noise.
const NOT_TLS: ReadonlySet<string> = new Set([
  'ERR_SSL_WRONG_VERSION_NUMBER',
  'ERR_SSL_PACKET_LENGTH_TOO_LONG',
  'ERR_SSL_HTTP_REQUEST',
  'ERR_SSL_UNKNOWN_PROTOCOL',
  'ERR_SSL_RECORD_LAYER_FAILURE',
  'ERR_SSL_BAD_RECORD_TYPE',
])

// Alerts about the client's certificate: missing, or not accepted by the server.
const ABOUT_OUR_CERTIFICATE =
  /ALERT_(CERTIFICATE_(REQUIRED|UNKNOWN|EXPIRED|REVOKED)|BAD_CERTIFICATE|NO_CERTIFICATE|UNSUPPORTED_CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED)/

/** The code for an error of the handshake, or an alert that came later (`ERR_SSL_…`). */
export function handshakeCode(reason: string): FailureCode {
  if (NOT_TLS.has(reason)) return 'TLS_NOT_SPOKEN'
  if (ABOUT_OUR_CERTIFICATE.test(reason)) return 'TLS_CLIENT_CERTIFICATE'
  return 'TLS_PROTOCOL'
}
