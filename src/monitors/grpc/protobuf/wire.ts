// Reading of bytes that anybody may have made up, by the reader of @bufbuild/protobuf.
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire'

/** Bytes that are no Protocol Buffers message, or not of the type that they should be. */
export class ProtobufMalformed extends Error {
  constructor(what: string) {
    super(what)
    this.name = 'ProtobufMalformed'
  }
}

/** A valid answer with more values than the limit. */
export class TooManyValues extends Error {
  constructor(valuesMax: number) {
    super(`the answer has more than ${valuesMax} values`)
    this.name = 'TooManyValues'
  }
}

/** Result of a reading function. Errors of the library become ProtobufMalformed. */
export function readUntrusted<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof TooManyValues) throw error
    throw new ProtobufMalformed((error as Error).message)
  }
}

/** Takes the value of a field that a reader stands before. */
export type FieldReader = (reader: BinaryReader) => void

/** Reads a message of known layout by a table of its fields; others are skipped. Throws an error of the library. */
export function readFields(bytes: Uint8Array, fields: Readonly<Record<number, FieldReader>>): void {
  const reader = new BinaryReader(bytes)
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag()
    const readField = fields[number]
    if (readField === undefined) reader.skip(wireType, number)
    else readField(reader)
  }
}

/** A message that is one text. */
export function textField(number: number, text: string): Uint8Array {
  return new BinaryWriter().tag(number, WireType.LengthDelimited).string(text).finish()
}
