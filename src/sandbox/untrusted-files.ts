// Checks files of user code before the agent reads them: a link may lead anywhere, and a pipe or a
// device may block its reader for ever.
import { constants } from 'node:fs'
import { open, realpath } from 'node:fs/promises'
import { sep } from 'node:path'

/** Whether the path, after all links, lies below the folder; false where it is not there. */
export async function leadsInside(path: string, folder: string): Promise<boolean> {
  const [real, root] = await Promise.all([realpath(path), realpath(folder)]).catch(() => [])
  return real !== undefined && root !== undefined && real.startsWith(root + sep)
}

/** The text of a plain file of at most so many bytes; undefined where it is anything else, or not there. */
export async function readUntrusted(path: string, bytesMax: number): Promise<string | undefined> {
  // Without waiting for a writer, should it be a pipe.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch(() => undefined)
  if (file === undefined) return undefined
  try {
    const found = await file.stat()
    if (!found.isFile() || found.size > bytesMax) return undefined
    // A file of the system may say that it is empty, and go on without end.
    const bytes = Buffer.alloc(found.size + 1)
    let length = 0
    for (let read = 1; read > 0 && length < bytes.length; length += read) {
      read = (await file.read(bytes, length, bytes.length - length, null)).bytesRead
    }
    return length > found.size ? undefined : bytes.toString('utf8', 0, length)
  } catch {
    return undefined
  } finally {
    await file.close()
  }
}
