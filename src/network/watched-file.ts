// A small file of the system (hosts, resolv.conf) whose parsed content is kept, and read again when the
// file has changed. Looks at most once a second, so that it costs nothing on a busy agent.
import { readFileSync, statSync } from 'node:fs'

const LOOK_EVERY_MS = 1000
const BYTES_MAX = 8 * 1024 * 1024

/**
 * Returns a function that gives the parsed content as of at most a second ago. A file that is missing,
 * unreadable or larger than 8 MiB reads as empty. `now` gives monotonic milliseconds.
 */
export function watchedFile<T>(
  path: string,
  parse: (text: string) => T,
  now: () => number = () => performance.now(),
): () => T {
  let lookedAt = Number.NEGATIVE_INFINITY
  let mark = ''
  let content = parse('')
  return () => {
    if (now() - lookedAt < LOOK_EVERY_MS) return content
    lookedAt = now()
    try {
      const { mtimeMs, size, ino } = statSync(path)
      const newMark = `${mtimeMs} ${size} ${ino}`
      if (newMark === mark) return content
      mark = newMark
      content = parse(size > BYTES_MAX ? '' : readFileSync(path, 'utf8'))
    } catch {
      if (mark !== '') content = parse('')
      mark = ''
    }
    return content
  }
}
