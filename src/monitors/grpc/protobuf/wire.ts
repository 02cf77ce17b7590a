// Reading of bytes that anybody may have made up, by the reader of @bufbuild/protobuf.
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import { TargetFailure } from '../../../network/target-failure.ts'

/** Result of a reading function. Errors of the library become the failure that `malformed` makes of their text. */
export function readUntrusted<T>(read: () => T, malformed: (why: string) => TargetFailure): T {
  try {
    return read()
  } catch (error) {
    throw error instanceof TargetFailure ? error : malformed((error as Error).message)
  }
}

type FieldReader = (reader: BinaryReader) => void

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
