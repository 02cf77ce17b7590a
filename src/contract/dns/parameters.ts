// Parameters of DNS by name and number, as IANA's registry has them: ports, types, classes, response codes and
// extended errors.

/** Where each protocol is spoken when no port is given (RFC 1035, 7858, 8484). */
export const DNS_PORTS = { UDP: 53, TCP: 53, DOT: 853, DOH: 443 } as const

/** The types that people ask for by name. */
const DNS_RECORD_TYPES = [
  ...(['A', 'AAAA', 'CNAME', 'MX', 'NS', 'TXT', 'SOA', 'HTTPS'] as const),
  ...(['SRV', 'CAA', 'PTR'] as const),
] as const

/** Name → number of every type that has a text form of its own. */
export const DNS_TYPE_NUMBERS: Readonly<Record<string, number>> = {
  A: 1,
  NS: 2,
  CNAME: 5,
  SOA: 6,
  PTR: 12,
  MX: 15,
  TXT: 16,
  AAAA: 28,
  SRV: 33,
  NAPTR: 35,
  DNAME: 39,
  OPT: 41,
  DS: 43,
  RRSIG: 46,
  NSEC: 47,
  DNSKEY: 48,
  NSEC3: 50,
  NSEC3PARAM: 51,
  TLSA: 52,
  SVCB: 64,
  HTTPS: 65,
  CAA: 257,
}

const TYPE_NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(DNS_TYPE_NUMBERS).map(([name, number]) => [number, name]),
)

/** The name of a type; `TYPE` and its number where it has none (RFC 3597). */
export function dnsTypeName(number: number): string {
  return TYPE_NAMES.get(number) ?? `TYPE${number}`
}

/** The number of a type that `dnsTypeProblem` has nothing against. */
export function dnsTypeNumber(type: string): number {
  return DNS_TYPE_NUMBERS[type] ?? Number(type.slice('TYPE'.length))
}

/** Pseudo-types and transfers: no question for one answer (RFC 6891, 8945, 1995, 5936). */
const NEVER_ASKED: ReadonlySet<number> = new Set([0, 41, 249, 250, 251, 252])

/** Error text of an invalid query type, or undefined. */
export function dnsTypeProblem(type: string): string | undefined {
  const isNamed = (DNS_RECORD_TYPES as readonly string[]).includes(type)
  if (!isNamed && !/^TYPE(?:0|[1-9]\d{0,4})$/.test(type)) {
    return `must be one of ${DNS_RECORD_TYPES.join(', ')}, or TYPE and a number, like TYPE257`
  }
  const number = dnsTypeNumber(type)
  if (number > 65_535) return 'has a number above 65535'
  return NEVER_ASKED.has(number) ? `${type} cannot be queried` : undefined
}

const RCODE_NAMES: Readonly<Record<number, string>> = {
  0: 'NOERROR',
  1: 'FORMERR',
  2: 'SERVFAIL',
  3: 'NXDOMAIN',
  4: 'NOTIMP',
  5: 'REFUSED',
  6: 'YXDOMAIN',
  7: 'YXRRSET',
  8: 'NXRRSET',
  9: 'NOTAUTH',
  10: 'NOTZONE',
  11: 'DSOTYPENI',
  16: 'BADVERS',
  17: 'BADKEY',
  18: 'BADTIME',
  19: 'BADMODE',
  20: 'BADNAME',
  21: 'BADALG',
  22: 'BADTRUNC',
  23: 'BADCOOKIE',
}

/** Twelve bits: four of the header and eight of EDNS (RFC 6891, 6.1.3). */
const UNNAMED = /^RCODE(\d{1,4})$/
const RCODE_MAX = 4095

/** The name of a response code, extended ones included; `RCODE` and its number where it has none. */
export function rcodeName(rcode: number): string {
  return RCODE_NAMES[rcode] ?? `RCODE${rcode}`
}

/** Why no answer can have this response code; undefined when one can. */
export function rcodeProblem(name: string): string | undefined {
  const number = Number(UNNAMED.exec(name)?.[1] ?? Number.NaN)
  if (number <= RCODE_MAX) {
    const usual = rcodeName(number)
    return usual === name ? undefined : `is written ${usual}`
  }
  const names = Object.values(RCODE_NAMES)
  if (names.includes(name)) return undefined
  return `is not a response code; use one of ${names.join(', ')}, or RCODE and a number`
}

export const DNS_CLASSES = { IN: 1, CH: 3, HS: 4 } as const

const CLASS_NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries({ ...DNS_CLASSES, NONE: 254, ANY: 255 }).map(([name, number]) => [number, name]),
)

/** The name of a class; `CLASS` and its number where it has none (RFC 3597). */
export function className(number: number): string {
  return CLASS_NAMES.get(number) ?? `CLASS${number}`
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
