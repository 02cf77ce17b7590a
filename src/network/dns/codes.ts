// Names of classes and extended errors in DNS messages, as IANA's registry of DNS parameters has them.

export const DNS_CLASSES = { IN: 1, CH: 3, HS: 4 } as const

const CLASSES: Readonly<Record<number, string>> = {
  1: 'IN',
  3: 'CH',
  4: 'HS',
  254: 'NONE',
  255: 'ANY',
}

/** The name of a class; `CLASS` and its number where it has none (RFC 3597). */
export function className(number: number): string {
  return CLASSES[number] ?? `CLASS${number}`
}

// RFC 8914, 4, and later registrations.
const EXTENDED_ERRORS: readonly string[] = [
  'Other',
  'Unsupported DNSKEY Algorithm',
  'Unsupported DS Digest Type',
  'Stale Answer',
  'Forged Answer',
  'DNSSEC Indeterminate',
  'DNSSEC Bogus',
  'Signature Expired',
  'Signature Not Yet Valid',
  'DNSKEY Missing',
  'RRSIGs Missing',
  'No Zone Key Bit Set',
  'NSEC Missing',
  'Cached Error',
  'Not Ready',
  'Blocked',
  'Censored',
  'Filtered',
  'Prohibited',
  'Stale NXDOMAIN Answer',
  'Not Authoritative',
  'Not Supported',
  'No Reachable Authority',
  'Network Error',
  'Invalid Data',
  'Signature Expired before Valid',
  'Too Early',
  'Unsupported NSEC3 Iterations Value',
  'Unable to conform to policy',
  'Synthesized',
  'Invalid Query Type',
]

/** The purpose of an extended DNS error; empty for numbers that have none. */
export function extendedErrorName(code: number): string {
  return EXTENDED_ERRORS[code] ?? ''
}
