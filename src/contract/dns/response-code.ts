// Response codes of DNS by name and number (IANA's registry of DNS parameters).

const NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries({
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
  }).map(([number, name]) => [Number(number), name]),
)

/** Twelve bits: four of the header and eight of EDNS (RFC 6891, 6.1.3). */
const UNNAMED = /^RCODE(\d{1,4})$/
const RCODE_MAX = 4095

/** The name of a response code, extended ones included; `RCODE` and its number where it has none. */
export function rcodeName(rcode: number): string {
  return NAMES.get(rcode) ?? `RCODE${rcode}`
}

/** Why no answer can have this response code; undefined when one can. */
export function rcodeProblem(name: string): string | undefined {
  const number = Number(UNNAMED.exec(name)?.[1] ?? Number.NaN)
  if (number <= RCODE_MAX) {
    const usual = rcodeName(number)
    return usual === name ? undefined : `is written ${usual}`
  }
  const names = [...NAMES.values()]
  if (names.includes(name)) return undefined
  return `is no response code; use one of ${names.join(', ')}, or RCODE and a number`
}
