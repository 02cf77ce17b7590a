// Reads and writes DER (X.690), the form of certificates, OCSP messages and revocation lists. Elements are
// views of the underlying bytes, so that a list of a million entries costs no objects until it is read.

/** Bytes that are not the DER that was expected. Never leaves the readers of messages. */
export class DerFault extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'DerFault'
  }
}

/** Tags of the elements that are read and written here. */
export const TAG = {
  BOOLEAN: 0x01,
  INTEGER: 0x02,
  BIT_STRING: 0x03,
  OCTET_STRING: 0x04,
  OID: 0x06,
  ENUMERATED: 0x0a,
  UTC_TIME: 0x17,
  GENERALIZED_TIME: 0x18,
  SEQUENCE: 0x30,
} as const

/** The tag `[number]`; constructed unless said otherwise. */
export function contextTag(number: number, constructed = true): number {
  return (constructed ? 0xa0 : 0x80) | number
}

/** One element. Offsets count from the start of `bytes`. */
export interface Element {
  bytes: Buffer
  tag: number
  /** Where its header begins, its content begins, and it ends. */
  from: number
  start: number
  end: number
}

/** Elements within one: no honest message has as many; lists of revoked certificates are read otherwise. */
const ELEMENTS_MAX = 20_000

/** The element that begins at `at` and ends before `end`. Throws DerFault. */
export function elementAt(bytes: Buffer, at: number, end: number): Element {
  if (at + 2 > end) throw new DerFault('an element is truncated')
  const tag = bytes[at] as number
  if ((tag & 0x1f) === 0x1f) throw new DerFault('a tag above 30')
  let length = bytes[at + 1] as number
  let start = at + 2
  if (length >= 0x80) {
    const count = length & 0x7f
    if (count === 0 || count > 4) throw new DerFault('an invalid length')
    if (start + count > end) throw new DerFault('an element is truncated')
    length = bytes.readUIntBE(start, count)
    start += count
  }
  if (length > end - start) throw new DerFault('an element is truncated')
  return { bytes, tag, from: at, start, end: start + length }
}

/** Parses the bytes as one element. Throws DerFault when anything follows it. */
export function wholeElement(bytes: Buffer, tag: number): Element {
  const element = elementAt(bytes, 0, bytes.length)
  if (element.end !== bytes.length) throw new DerFault('trailing bytes')
  return expectTag(element, tag)
}

/** The elements within a constructed one. Throws DerFault. */
export function childrenOf(element: Element): Element[] {
  const children: Element[] = []
  let at = element.start
  while (at < element.end) {
    const child = elementAt(element.bytes, at, element.end)
    if (children.push(child) > ELEMENTS_MAX) throw new DerFault('too many elements')
    at = child.end
  }
  return children
}

/** Reads the elements of a sequence one after the other. */
export class Elements {
  readonly #bytes: Buffer
  readonly #end: number
  #at: number

  constructor(parent: Element) {
    this.#bytes = parent.bytes
    this.#at = parent.start
    this.#end = parent.end
  }

  /** The tag of the element that comes next; undefined at the end. */
  get nextTag(): number | undefined {
    return this.#at < this.#end ? this.#bytes[this.#at] : undefined
  }

  /** The next element, of this tag where one is given. Throws DerFault. */
  next(tag?: number): Element {
    const element = elementAt(this.#bytes, this.#at, this.#end)
    this.#at = element.end
    return tag === undefined ? element : expectTag(element, tag)
  }

  /** The next element when it has the tag. */
  optional(tag: number): Element | undefined {
    return this.nextTag === tag ? this.next() : undefined
  }
}

function expectTag(element: Element, tag: number): Element {
  if (element.tag === tag) return element
  throw new DerFault(`tag 0x${element.tag.toString(16)} instead of 0x${tag.toString(16)}`)
}

/** The content, without a copy. */
export function contentOf({ bytes, start, end }: Element): Buffer {
  return bytes.subarray(start, end)
}

/** The element with its header, without a copy. */
export function encodingOf({ bytes, from, end }: Element): Buffer {
  return bytes.subarray(from, end)
}

/** An object identifier in dots. Throws DerFault. */
export function oidOf(element: Element): string {
  const content = contentOf(expectTag(element, TAG.OID))
  const arcs: number[] = []
  let arc = 0
  for (const byte of content) {
    if (arc > 2 ** 45) throw new DerFault('too long an object identifier')
    arc = arc * 128 + (byte & 0x7f)
    if (byte >= 0x80) continue
    if (arcs.length === 0) {
      const first = Math.min(2, Math.floor(arc / 40))
      arcs.push(first, arc - first * 40)
    } else if (arcs.push(arc) > 64) throw new DerFault('too long an object identifier')
    arc = 0
  }
  if (arcs.length === 0 || arc !== 0) throw new DerFault('a truncated object identifier')
  return arcs.join('.')
}

/** An integer as lower-case hex without leading zeros, as serial numbers are compared. */
export function integerHex(element: Element): string {
  return contentOf(element)
    .toString('hex')
    .replace(/^(?:00)+(?=..)/, '')
}

/** A small integer or enumerated value; -1 when it is larger than four bytes. */
export function smallInteger(element: Element): number {
  const { start, end, bytes } = element
  const length = end - start
  return length === 0 || length > 4 ? -1 : bytes.readIntBE(start, length)
}

/** The bits of a bit string that fills whole bytes. Throws DerFault. */
export function bitsOf(element: Element): Buffer {
  const content = contentOf(expectTag(element, TAG.BIT_STRING))
  if (content.length === 0 || content[0] !== 0) throw new DerFault('a bit string with unused bits')
  return content.subarray(1)
}

const TIME = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(?:\.\d+)?Z$/

/** A UTCTime or GeneralizedTime in milliseconds since 1970 (RFC 5280, 4.1.2.5). Throws DerFault. */
export function timeOf(element: Element): number {
  let text = contentOf(element).toString('latin1')
  if (element.tag === TAG.UTC_TIME) text = `${Number(text.slice(0, 2)) >= 50 ? 19 : 20}${text}`
  else if (element.tag !== TAG.GENERALIZED_TIME) throw new DerFault('a time is missing')
  const found = TIME.exec(text)
  if (found === null) throw new DerFault('an invalid time')
  const [year = 0, month = 0, day, hour, minute, second] = found.slice(1, 7).map(Number)
  const ms = Date.UTC(year, month - 1, day, hour, minute, second)
  if (Number.isNaN(ms)) throw new DerFault('an invalid time')
  return ms
}

/** Writes an element around its content. */
export function derElement(tag: number, ...content: Buffer[]): Buffer {
  const length = content.reduce((sum, { length: own }) => sum + own, 0)
  if (length < 0x80) return Buffer.concat([Buffer.from([tag, length]), ...content])
  const size = Buffer.alloc(4)
  size.writeUInt32BE(length)
  const bare = size.subarray(size.findIndex((byte) => byte !== 0))
  return Buffer.concat([Buffer.from([tag, 0x80 | bare.length]), bare, ...content])
}
