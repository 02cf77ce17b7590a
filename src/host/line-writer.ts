// Writes lines to a file descriptor without ever holding up the process: a reader that stalls (a blocked
// container log driver, a pager, Ctrl-S) costs lines, counted, and not the timetable. Node's own standard
// output blocks the whole process when it is a full pipe.
import { constants, fstatSync, openSync, write as writeTo } from 'node:fs'

/** Takes finished lines. */
export interface LineWriter {
  write(line: string): void
  /** Lines dropped so far because nobody read those before them. */
  dropped(): number
}

/** How to write. */
export interface LineWriterOptions {
  fd: number
  /** Lines that wait for the reader; what comes above that is dropped. */
  waitingBytesMax?: number
  /** Called when lines fit again after some were dropped. */
  onDropped?: (lines: number) => void
}

const WAITING_BYTES_MAX = 4 * 1024 * 1024
/** Before another try on a descriptor that does not block and is full. */
const RETRY_MS = 20

/**
 * Makes a writer. Lines stay in order. A pending write keeps the process alive, so that what has been said
 * is out at a natural end; a reader that went away (EPIPE) silences the writer and ends nothing.
 */
export function createLineWriter(options: LineWriterOptions): LineWriter {
  const { waitingBytesMax = WAITING_BYTES_MAX, onDropped } = options
  const fd = withoutBlocking(options.fd)
  let waiting: string[] = []
  let waitingBytes = 0
  let dropped = 0
  let untold = 0
  let busy = false
  let gone = false

  const next = () => {
    busy = waiting.length > 0
    if (!busy) return
    const bytes = Buffer.from(waiting.join(''))
    waiting = []
    waitingBytes = 0
    put(bytes)
    if (untold === 0) return
    const lines = untold
    untold = 0
    onDropped?.(lines)
  }

  const put = (bytes: Buffer) => {
    writeTo(fd, bytes, (error, written) => {
      if (error?.code === 'EAGAIN') {
        setTimeout(() => put(bytes), RETRY_MS)
        return
      }
      if (error !== null) {
        gone = true
        waiting = []
        return
      }
      if (written < bytes.length) put(bytes.subarray(written))
      else next()
    })
  }

  return {
    write(line) {
      if (gone) return
      const bytes = Buffer.byteLength(line)
      if (waitingBytes + bytes > waitingBytesMax) {
        dropped++
        untold++
        return
      }
      waiting.push(line)
      waitingBytes += bytes
      if (!busy) next()
    },
    dropped: () => dropped,
  }
}

/**
 * The same pipe or terminal, opened anew so that a write to it gives up instead of waiting: a thread that
 * waits in a write would keep even `process.exit()` from ending. Files never stall, and a second opening
 * would have a position of its own.
 */
function withoutBlocking(fd: number): number {
  try {
    const kind = fstatSync(fd)
    if (!kind.isFIFO() && !kind.isCharacterDevice()) return fd
    return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK)
  } catch {
    // Not Linux, or not ours to open again: then it blocks one thread of the pool.
    return fd
  }
}
