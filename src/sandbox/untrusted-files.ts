// Checks files of user code before the agent reads them: a link may lead anywhere, and a pipe or a
// device may block its reader for ever.
import { constants } from 'node:fs'
import { type FileHandle, open, realpath } from 'node:fs/promises'
import { sep } from 'node:path'

/** Whether the path, after all links, lies below the folder; false where it is not there. */
export async function leadsInside(path: string, folder: string): Promise<boolean> {
  const [real, root] = await Promise.all([realpath(path), realpath(folder)]).catch(() => [])
  return real !== undefined && root !== undefined && real.startsWith(root + sep)
}

/** Opens a plain file to read it; undefined where it is anything else, or not there. */
export async function openUntrusted(path: string): Promise<FileHandle | undefined> {
  // Without waiting for a writer, should it be a pipe.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch(() => undefined)
  const found = await file?.stat()
  if (found?.isFile() === true) return file
  await file?.close()
  return undefined
}

/** The text of a plain file of at most so many bytes; undefined where it is anything else, or not there. */
export async function readUntrusted(path: string, bytesMax: number): Promise<string | undefined> {
  const file = await openUntrusted(path)
  if (file === undefined) return undefined
  try {
    const { size } = await file.stat()
    if (size > bytesMax) return undefined
    // A file of the system may say that it is empty, and go on without end.
    const bytes = Buffer.alloc(size + 1)
    let length = 0
    for (let read = 1; read > 0 && length < bytes.length; length += read) {
      read = (await file.read(bytes, length, bytes.length - length, null)).bytesRead
    }
    return length > size ? undefined : bytes.toString('utf8', 0, length)
  } catch {
    return undefined
  } finally {
    await file.close()
  }
}
