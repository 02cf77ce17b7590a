// The wire format of Protocol Buffers (protobuf.dev/programming-guides/encoding): bounded reading of bytes
// that anybody may have made up, and writing.

/** Bytes that are no Protocol Buffers message, or not of the type that they should be. */
export class ProtobufMalformed extends Error {
  constructor(what: string) {
    super(what)
    this.name = 'ProtobufMalformed'
  }
}

/** Kinds of values on the wire. */
export const WIRE = { varint: 0, fixed64: 1, bytes: 2, groupStart: 3, groupEnd: 4, fixed32: 5 }

/** A varint as two halves of 32 bits, unsigned: most numbers need no BigInt. */
export interface Halves {
  low: number
  high: number
}

const UINT32 = 4_294_967_296

/** Reads a message from its first byte to its last. Methods throw ProtobufMalformed. */
export class WireReader {
  readonly #bytes: Buffer
  #at: number
  #end: number
  /** The halves of the newest varint or fixed64. */
  readonly #halves: Halves = { low: 0, high: 0 }

  constructor(bytes: Buffer, at = 0, end = bytes.length) {
    this.#bytes = bytes
    this.#at = at
    this.#end = end
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#end
  }

  /** Number of the next field and its kind, `number * 8 + kind`. */
  tag(): number {
    const { low, high } = this.varint()
    if (high !== 0 || low >>> 3 === 0) throw new ProtobufMalformed('a field has no number')
    return low
  }

  /** The halves belong to the reader: the next call overwrites them. */
  varint(): Halves {
    const halves = this.#halves
    const first = this.#byte()
    halves.high = 0
    halves.low = first & 0x7f
    if (first < 0x80) return halves
    for (let at = 1; at < 10; at++) {
      const byte = this.#byte()
      const bits = byte & 0x7f
      const shift = at * 7
      if (shift < 28) halves.low |= bits << shift
      else if (shift === 28) {
        halves.low |= bits << 28
        halves.high = bits >>> 4
      } else halves.high |= bits << (shift - 32)
      if (byte < 0x80) {
        halves.low >>>= 0
        halves.high >>>= 0
        return halves
      }
    }
    throw new ProtobufMalformed('a number has more than ten bytes')
  }

  #byte(): number {
    if (this.#at >= this.#end) throw new ProtobufMalformed('the message is cut off')
    return this.#bytes[this.#at++] as number
  }

  /** The low 32 bits of a varint, signed: int32, bool and enum. */
  int32(): number {
    return this.varint().low | 0
  }

  fixed32(): number {
    return this.#bytes.readUInt32LE(this.#skip(4))
  }

  float(): number {
    return this.#bytes.readFloatLE(this.#skip(4))
  }

  double(): number {
    return this.#bytes.readDoubleLE(this.#skip(8))
  }

  fixed64(): Halves {
    const at = this.#skip(8)
    this.#halves.low = this.#bytes.readUInt32LE(at)
    this.#halves.high = this.#bytes.readUInt32LE(at + 4)
    return this.#halves
  }

  /** A view, not a copy. */
  bytes(): Buffer {
    const length = this.#length()
    const at = this.#skip(length)
    return this.#bytes.subarray(at, at + length)
  }

  text(): string {
    const length = this.#length()
    const at = this.#skip(length)
    return this.#bytes.toString('utf8', at, at + length)
  }

  /** Reads what follows as a message, or a packed list, of its own: until `leave` with what this gives. */
  enter(): number {
    const length = this.#length()
    const outer = this.#end
    const end = this.#at + length
    if (end > outer) throw new ProtobufMalformed('the message is cut off')
    this.#end = end
    return outer
  }

  leave(outer: number): void {
    this.#at = this.#end
    this.#end = outer
  }

  /** Skips the value of an unknown field. */
  pass(tag: number, depth = 0): void {
    switch (tag & 7) {
      case WIRE.varint:
        this.varint()
        return
      case WIRE.fixed64:
        this.#skip(8)
        return
      case WIRE.bytes:
        this.#skip(this.#length())
        return
      case WIRE.groupStart:
        this.#passGroup(tag, depth)
        return
      case WIRE.fixed32:
        this.#skip(4)
        return
      default:
        throw new ProtobufMalformed(`a field of kind ${tag & 7}`)
    }
  }

  #passGroup(tag: number, depth: number): void {
    if (depth >= DEPTH_MAX) throw new ProtobufMalformed('nested too deep')
    const end = tag + 1
    for (;;) {
      const inner = this.tag()
      if (inner === end) return
      this.pass(inner, depth + 1)
    }
  }

  #length(): number {
    const { low, high } = this.varint()
    if (high !== 0) throw new ProtobufMalformed('the message is cut off')
    return low
  }

  #skip(length: number): number {
    const at = this.#at
    if (at + length > this.#end) throw new ProtobufMalformed('the message is cut off')
    this.#at = at + length
    return at
  }
}

/** Takes the value of a field that a reader stands before. */
export type FieldReader = (reader: WireReader) => void

/**
 * Reads a message of known layout by a table of its fields, of which each is bytes, a text or a varint of
 * 32 bits, as the table reads it; others are skipped. Throws ProtobufMalformed.
 */
export function readFields(bytes: Buffer, fields: Readonly<Record<number, FieldReader>>): void {
  const reader = new WireReader(bytes)
  while (!reader.isAtEnd) {
    const tag = reader.tag()
    const readField = fields[tag >>> 3]
    if (readField === undefined) reader.pass(tag)
    else readField(reader)
  }
}

/** Messages within messages; the bound that Protocol Buffers' own parsers have. */
export const DEPTH_MAX = 100

/** The text of an unsigned number of 64 bits. */
export function unsignedText({ low, high }: Halves): string {
  return high === 0 ? String(low) : String(BigInt(high) * BigInt(UINT32) + BigInt(low))
}

/** The text of a signed number of 64 bits in two's complement. */
export function signedText(halves: Halves): string {
  if (halves.high === 0) return String(halves.low)
  const { low, high } = halves
  return String(BigInt.asIntN(64, (BigInt(high) << 32n) | BigInt(low)))
}

/** The text of a zigzag number of 64 bits (sint64). */
export function zigzagText({ low, high }: Halves): string {
  const raw = (BigInt(high) << 32n) | BigInt(low)
  return String((raw >> 1n) ^ -(raw & 1n))
}

const FIRST_BYTES = 64

/** Writes a message. */
export class WireWriter {
  #bytes = Buffer.allocUnsafe(FIRST_BYTES)
  #length = 0

  /** The bytes so far; a view. */
  get written(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }

  tag(number: number, kind: number): void {
    this.uint32(number * 8 + kind)
  }

  uint32(value: number): void {
    const at = this.#grow(5)
    let rest = value >>> 0
    let next = at
    while (rest > 0x7f) {
      this.#bytes[next++] = (rest & 0x7f) | 0x80
      rest >>>= 7
    }
    this.#bytes[next++] = rest
    this.#length = next
  }

  /** Any integer of 64 bits, negative ones in two's complement. */
  varint(value: bigint): void {
    let rest = BigInt.asUintN(64, value)
    const at = this.#grow(10)
    let next = at
    while (rest > 0x7fn) {
      this.#bytes[next++] = Number(rest & 0x7fn) | 0x80
      rest >>= 7n
    }
    this.#bytes[next++] = Number(rest)
    this.#length = next
  }

  fixed32(value: number): void {
    this.#length = this.#bytes.writeUInt32LE(value >>> 0, this.#grow(4))
  }

  fixed64(value: bigint): void {
    this.#length = this.#bytes.writeBigUInt64LE(BigInt.asUintN(64, value), this.#grow(8))
  }

  float(value: number): void {
    this.#length = this.#bytes.writeFloatLE(value, this.#grow(4))
  }

  double(value: number): void {
    this.#length = this.#bytes.writeDoubleLE(value, this.#grow(8))
  }

  /** With its length before it. */
  bytes(value: Uint8Array): void {
    this.uint32(value.length)
    const at = this.#grow(value.length)
    this.#bytes.set(value, at)
    this.#length = at + value.length
  }

  text(value: string): void {
    const length = Buffer.byteLength(value)
    this.uint32(length)
    const at = this.#grow(length)
    this.#length = at + this.#bytes.write(value, at)
  }

  #grow(more: number): number {
    const needed = this.#length + more
    if (needed > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(needed, this.#bytes.length * 2))
      larger.set(this.written)
      this.#bytes = larger
    }
    return this.#length
  }
}
