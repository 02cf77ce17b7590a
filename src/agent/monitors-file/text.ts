// Reads the text of a file that a user named, or explains why it cannot be read.
import { readFile, stat } from 'node:fs/promises'

/** The text, or what is wrong. */
export type FileText = { text: string } | { problem: string }

const REASONS: Record<string, string> = {
  ENOENT: 'does not exist; check the path',
  EACCES: 'cannot be read: permission denied; let this user read it',
  EPERM: 'cannot be read: permission denied; let this user read it',
  EISDIR: 'is a folder; name the file in it',
  ENOTDIR: 'is below a file, not a folder; check the path',
  ELOOP: 'is a symbolic link that refers to itself',
  ENAMETOOLONG: 'is not a valid path: the name is too long',
  ERR_INVALID_ARG_VALUE: 'is not a valid path',
}

/** Reads a regular file of at most `bytesMax` bytes as UTF-8, without its byte order mark. */
export async function readText(path: string, bytesMax: number): Promise<FileText> {
  let bytes: Buffer
  try {
    const facts = await stat(path)
    if (facts.isDirectory()) return { problem: REASONS['EISDIR'] as string }
    // A pipe could block forever.
    if (!facts.isFile()) return { problem: 'is not a regular file' }
    if (facts.size > bytesMax) {
      return { problem: `is larger than ${bytesMax} bytes (it has ${facts.size})` }
    }
    bytes = await readFile(path)
  } catch (error) {
    return { problem: reasonOf(error) }
  }
  return decode(bytes, bytesMax)
}

/** Why a path cannot be used: undefined for an existing file or folder. */
export async function problemOfPath(path: string): Promise<string | undefined> {
  return stat(path).then(() => undefined, reasonOf)
}

function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  return REASONS[code ?? ''] ?? `cannot be read: ${code ?? message}`
}

function decode(bytes: Buffer, bytesMax: number): FileText {
  if (bytes.length > bytesMax) return { problem: `is larger than ${bytesMax} bytes` }
  const [first, second] = bytes
  if ((first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)) {
    return { problem: 'is in UTF-16; save it as UTF-8' }
  }
  if (bytes.includes(0)) return { problem: 'is not a text file' }
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) }
  } catch {
    return { problem: 'is not valid UTF-8; save it as UTF-8' }
  }
}
