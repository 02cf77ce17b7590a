// Domain names between their text and their wire form (RFC 1035, 3.1 and 5.1), for what people write as a query.
import { isIP } from 'node:net'
import { domainToASCII } from 'node:url'

const NAME_BYTES_MAX = 255
const LABEL_BYTES_MAX = 63

/** The wire form of a name, or what is wrong with it. Names are absolute: a dot at the end changes nothing. */
export function encodeDnsName(text: string): Buffer | string {
  if (text === '.') return Buffer.from([0])
  // oxlint-disable-next-line no-control-regex
  const ascii = /[^\u0000-\u007f]/.test(text) ? domainToASCII(text) : text
  if (ascii === '') return 'cannot be encoded by IDNA'
  const labels = labelsOf(ascii)
  if (typeof labels === 'string') return labels
  const parts: Buffer[] = []
  for (const label of labels) {
    if (label.length === 0) return 'has an empty label: two dots in a row, or one at the beginning'
    if (label.length > LABEL_BYTES_MAX) return `has a label of more than ${LABEL_BYTES_MAX} bytes`
    parts.push(Buffer.from([label.length]), Buffer.from(label))
  }
  const wire = Buffer.concat([...parts, Buffer.from([0])])
  return wire.length > NAME_BYTES_MAX ? `is longer than ${NAME_BYTES_MAX} bytes` : wire
}

/** The bytes of each label; `\.` and `\032` are read as in a zone file. */
function labelsOf(text: string): number[][] | string {
  const labels: number[][] = [[]]
  for (let at = 0; at < text.length; at++) {
    const character = text[at] as string
    if (character === '.') {
      // The dot at the end stands for the root.
      if (at < text.length - 1) labels.push([])
      continue
    }
    let byte = character.charCodeAt(0)
    if (character === '\\') {
      const decimal = /^\d{3}/.exec(text.slice(at + 1, at + 4))?.[0]
      byte = decimal === undefined ? text.charCodeAt(at + 1) : Number(decimal)
      if (!(byte <= 255)) return 'has a backslash without a character or three digits up to 255'
      at += decimal?.length ?? 1
    } else if (byte <= 0x20 || byte === 0x7f) return 'has blanks or control characters'
    labels.at(-1)?.push(byte)
  }
  return labels
}

/** The name under which the PTR record of an address stands (RFC 1035, 3.5; RFC 3596, 2.5); undefined for names. */
export function reverseName(address: string): string | undefined {
  const version = isIP(address)
  if (version === 0 || address.includes('%')) return undefined
  if (version === 4) return `${address.split('.').toReversed().join('.')}.in-addr.arpa.`
  const groups = ipv6Groups(address).map((group) => group.toString(16).padStart(4, '0'))
  return `${groups.join('').split('').toReversed().join('.')}.ip6.arpa.`
}

/** The eight 16-bit groups of an IPv6 address; URL writes every spelling in one form. */
export function ipv6Groups(address: string): number[] {
  const unzoned = address.replace(/%.*$/, '')
  const spelled = URL.parse(`http://[${unzoned}]`)?.hostname.slice(1, -1) ?? '::'
  const [left = '', right] = spelled.split('::')
  const parse = (part: string) => (part === '' ? [] : part.split(':').map((w) => parseInt(w, 16)))
  const [before, after] = [parse(left), parse(right ?? '')]
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => 0)
  return [...before, ...zeros, ...after]
}
