// What a file is, by its first bytes and not by its name.
import { open } from 'node:fs/promises'

/**
 * `media` is seen by people and holds no text that could be taken out of it; `closed` is packed in a way that is
 * not looked into.
 */
export type FileKind = 'media' | 'zip' | 'gzip' | 'closed' | 'bytes'

/** First bytes that identify a kind; as many as are read. */
const KIND_BYTES = 262

const MAGIC: readonly { kind: FileKind; at: number; bytes: string }[] = [
  { kind: 'zip', at: 0, bytes: 'PK\u0003\u0004' },
  { kind: 'zip', at: 0, bytes: 'PK\u0005\u0006' },
  { kind: 'gzip', at: 0, bytes: '\u001F\u008B\u0008' },
  { kind: 'media', at: 0, bytes: '\u0089PNG' },
  { kind: 'media', at: 0, bytes: '\u00FF\u00D8\u00FF' },
  { kind: 'media', at: 0, bytes: 'GIF8' },
  { kind: 'media', at: 0, bytes: '\u001AE\u00DF\u00A3' },
  { kind: 'media', at: 4, bytes: 'ftyp' },
  { kind: 'media', at: 8, bytes: 'WEBP' },
  { kind: 'media', at: 0, bytes: 'wOF2' },
  { kind: 'media', at: 0, bytes: 'wOFF' },
  // xz, bzip2, 7z, zstd, rar, lz4, and tar, whose files may be packed in turn
  { kind: 'closed', at: 0, bytes: '\u00FD7zXZ\u0000' },
  { kind: 'closed', at: 4, bytes: '1AY&SY' },
  { kind: 'closed', at: 0, bytes: '7z\u00BC\u00AF\u0027\u001C' },
  { kind: 'closed', at: 0, bytes: '\u0028\u00B5\u002F\u00FD' },
  { kind: 'closed', at: 0, bytes: 'Rar!\u001A\u0007' },
  { kind: 'closed', at: 0, bytes: '\u0004\u0022\u004D\u0018' },
  { kind: 'closed', at: 257, bytes: 'ustar' },
]

/** The kind of a file that begins with these bytes. A picture has zeros there, a text that begins like one has none. */
export function kindOf(start: Buffer): FileKind {
  const text = start.toString('latin1', 0, KIND_BYTES)
  const kind = MAGIC.find(({ at, bytes }) => text.startsWith(bytes, at))?.kind ?? 'bytes'
  return kind === 'media' && !text.includes('\0') ? 'bytes' : kind
}

/** The kind of the file at `path`. Rejects with what the file system throws. */
export async function kindOfFile(path: string): Promise<FileKind> {
  const file = await open(path, 'r')
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(KIND_BYTES), 0, KIND_BYTES, 0)
    return kindOf(buffer.subarray(0, bytesRead))
  } finally {
    await file.close()
  }
}
