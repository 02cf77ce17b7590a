// Which addresses an answer of a name server gives, and for which name (RFC 1035, 4.1; RFC 3596). As small as
// the supervisor of a run needs it, to say by what name a program came to an address.

const HEADER_BYTES = 12
const POINTER = 0xc0
const LABEL_BYTES_MAX = 63
const [A, AAAA] = [1, 28]
const PLAIN_NAME = /^[\w-]+(?:\.[\w-]+)*$/

/** What was asked for and its addresses, as `octet.octet…` or as eight hexadecimal groups. */
export interface NamedAddresses {
  name: string
  addresses: string[]
}

/** Reads the answer; undefined where it is none that can be read, or the name is of a rare kind. */
export function namedAddresses(answer: Buffer): NamedAddresses | undefined {
  try {
    if (answer.readUInt16BE(4) !== 1) return undefined
    const labels: string[] = []
    let at = HEADER_BYTES
    for (let length = answer.readUInt8(at); length > 0; length = answer.readUInt8(at)) {
      if (length > LABEL_BYTES_MAX) return undefined
      labels.push(answer.toString('latin1', at + 1, at + 1 + length))
      at += length + 1
    }
    const name = labels.join('.').toLowerCase()
    return PLAIN_NAME.test(name) ? { name, addresses: addressesAfter(answer, at + 5) } : undefined
  } catch {
    // Shorter than it says of itself.
    return undefined
  }
}

function addressesAfter(answer: Buffer, start: number): string[] {
  const found: string[] = []
  let at = start
  for (let left = answer.readUInt16BE(6); left > 0; left--) {
    at = afterName(answer, at)
    const [type, length] = [answer.readUInt16BE(at), answer.readUInt16BE(at + 8)]
    at += 10
    if (type === A && length === 4) found.push(answer.subarray(at, at + 4).join('.'))
    else if (type === AAAA && length === 16) found.push(groupsOf(answer, at))
    at += length
  }
  return found
}

function afterName(answer: Buffer, start: number): number {
  for (let at = start; ;) {
    const length = answer.readUInt8(at)
    if (length >= POINTER) return at + 2
    at += length + 1
    if (length === 0) return at
  }
}

/** The sixteen bytes as the supervisor writes the addresses that it evaluates: eight groups, none left out. */
export function groupsOf(bytes: Buffer, start: number): string {
  const group = (_: unknown, at: number) => bytes.readUInt16BE(start + 2 * at).toString(16)
  return Array.from({ length: 8 }, group).join(':')
}
