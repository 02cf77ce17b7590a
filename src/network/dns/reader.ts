// Reads a DNS message from its bytes (RFC 1035, 4.1). Nothing in here trusts a length, an offset or a pointer.
import { LIMITS } from '../../contract/versions.ts'
import { decimalEscape } from './text.ts'

/** The bytes are no DNS message; the message says why. Never leaves the decoder. */
export class MalformedMessage extends Error {
  constructor(reason: string) {
    super(reason)
    this.name = 'MalformedMessage'
  }
}

const HEADER_BYTES = 12
const NAME_BYTES_MAX = 255

// 0: stands for itself in a name; 1: is escaped with a backslash; 2: is written as a backslash and three digits.
const WRITTEN = Uint8Array.from({ length: 256 }, (_, byte) => {
  if (byte <= 0x20 || byte >= 0x7f) return 2
  return '."();@$\\'.includes(String.fromCharCode(byte)) ? 1 : 0
})

/** A cursor in a message; each read advances it. All methods throw MalformedMessage. */
export class DnsReader {
  readonly bytes: Buffer
  at: number
  /** The limit of reading: the end of the message, or of the data of a record. */
  end: number
  /** Owners mostly repeat, as the same pointer. */
  #knownAt = -1
  #known = ''
  #characters = 0

  constructor(bytes: Buffer, at = HEADER_BYTES) {
    this.bytes = bytes
    this.at = at
    this.end = bytes.length
  }

  u8(): number {
    this.#need(1)
    return this.bytes[this.at++] as number
  }

  u16(): number {
    this.#need(2)
    const { bytes, at } = this
    this.at = at + 2
    return ((bytes[at] as number) << 8) | (bytes[at + 1] as number)
  }

  u32(): number {
    return this.u16() * 65_536 + this.u16()
  }

  /** The next bytes themselves, not a copy. */
  readBytes(length: number): Buffer {
    this.#need(length)
    const { at } = this
    this.at = at + length
    return this.bytes.subarray(at, at + length)
  }

  /** All up to `end`. */
  rest(): Buffer {
    return this.readBytes(this.end - this.at)
  }

  /** A name in its absolute text form; bytes that a zone file could not hold are escaped (RFC 4343, 2.1). */
  name(): string {
    const { bytes } = this
    const first = bytes[this.at]
    if (first !== undefined && first >= 0xc0 && this.at + 2 <= this.end) {
      const target = ((first & 0x3f) << 8) | (bytes[this.at + 1] as number)
      if (target === this.#knownAt) {
        this.at += 2
        return this.#count(this.#known)
      }
      const text = this.#readName()
      this.#knownAt = target
      this.#known = text
      return text
    }
    return this.#readName()
  }

  #readName(): string {
    const { bytes } = this
    let at = this.at
    let end = this.end
    // A pointer leads to before the labels that it ends: then no chain of them is endless.
    let before = at
    let length = 1
    let text = ''
    let jumped = false
    for (;;) {
      if (at >= end) throw new MalformedMessage('a name is truncated')
      const size = bytes[at] as number
      if (size === 0) break
      if (size >= 0xc0) {
        if (at + 1 >= end) throw new MalformedMessage('a name is truncated')
        const target = ((size & 0x3f) << 8) | (bytes[at + 1] as number)
        if (target >= before)
          throw new MalformedMessage('a compression pointer does not point backwards')
        if (target < HEADER_BYTES)
          throw new MalformedMessage('a compression pointer points into the header')
        if (!jumped) this.at = at + 2
        jumped = true
        before = target
        at = target
        end = bytes.length
        continue
      }
      if (size > 63) throw new MalformedMessage('a label has an invalid type')
      length += size + 1
      if (length > NAME_BYTES_MAX) throw new MalformedMessage('a name is longer than 255 bytes')
      if (at + size >= end) throw new MalformedMessage('a name is truncated')
      text += `${labelText(bytes, at + 1, at + 1 + size)}.`
      at += size + 1
    }
    if (!jumped) this.at = at + 1
    return this.#count(text === '' ? '.' : text)
  }

  /** A string of the form length and bytes, without its length. */
  characterString(): Buffer {
    return this.readBytes(this.u8())
  }

  // A small compressed message can expand to a large text, so the text is limited.
  #count(text: string): string {
    this.#characters += text.length
    if (this.#characters > LIMITS.dnsTextCharactersMax) {
      throw new MalformedMessage(
        `its names expand to more than ${LIMITS.dnsTextCharactersMax} characters`,
      )
    }
    return text
  }

  #need(length: number): void {
    if (this.at + length > this.end) throw new MalformedMessage('it is truncated')
  }
}

function labelText(bytes: Buffer, from: number, to: number): string {
  for (let at = from; at < to; at++) {
    if (WRITTEN[bytes[at] as number] !== 0) return escapedLabel(bytes, from, to)
  }
  return bytes.toString('latin1', from, to)
}

function escapedLabel(bytes: Buffer, from: number, to: number): string {
  let text = ''
  for (let at = from; at < to; at++) {
    const byte = bytes[at] as number
    const how = WRITTEN[byte]
    if (how === 2) text += decimalEscape(byte)
    else text += how === 1 ? `\\${String.fromCharCode(byte)}` : String.fromCharCode(byte)
  }
  return text
}
