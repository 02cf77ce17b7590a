// Caches the parsed content of a small system file (hosts, resolv.conf), and reads it again when the file has
// changed. Checks for changes once a second at most, so that it costs nothing on a busy agent.
import { readFileSync, statSync } from 'node:fs'

const CHECK_INTERVAL_MS = 1000
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
  let checkedAt = Number.NEGATIVE_INFINITY
  let mark = ''
  let content = parse('')
  return () => {
    if (now() - checkedAt < CHECK_INTERVAL_MS) return content
    checkedAt = now()
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
