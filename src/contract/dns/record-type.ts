// Types of DNS records by name and number (IANA's registry of DNS parameters), as far as they can be asked for.

/** The types that people ask for by name. */
export const DNS_RECORD_TYPES = [
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

const NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(DNS_TYPE_NUMBERS).map(([name, number]) => [number, name]),
)

/** The name of a type; `TYPE` and its number where it has none (RFC 3597). */
export function dnsTypeName(number: number): string {
  return NAMES.get(number) ?? `TYPE${number}`
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
  return NEVER_ASKED.has(number) ? `${type} is not a type that can be asked for` : undefined
}
