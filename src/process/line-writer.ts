// Writes lines to standard output without ever holding up the process: a reader that stalls (a blocked
// container log driver, a pager, Ctrl-S) costs lines, counted, and not the timetable. Node's own standard
// output blocks the whole process when it is a full pipe.
import { constants, fstatSync, openSync, write as writeTo, writeSync } from 'node:fs'

export interface LineWriter {
  write(line: string): void
  /** Number of lines dropped so far because the reader stalled. */
  dropped(): number
  /** Calls back when all lines so far are written or dropped: at once if they already are. */
  onWritten(written: () => void): void
}

export interface LineWriterOptions {
  /** Bytes of lines that wait for the reader; more are dropped. */
  waitingBytesMax?: number
  /**
   * Writes at once, instead of in the background, what a pipe or terminal accepts without blocking, so that a
   * line appears before the next action.
   */
  isPrompt?: boolean
  /** Called when lines fit again after some were dropped. */
  onDropped?: (lines: number) => void
}

const STANDARD_OUTPUT = 1
const WAITING_BYTES_MAX = 4 * 1024 * 1024
/** Before another try on a descriptor that does not block and is full. */
const RETRY_MS = 20

/**
 * Makes a writer. Lines stay in order. A pending write keeps the process alive, so that all lines are written at
 * a natural end. After its reader has closed (EPIPE), the writer writes nothing and does not end the process.
 */
export function createLineWriter(options: LineWriterOptions = {}): LineWriter {
  const { waitingBytesMax = WAITING_BYTES_MAX, onDropped, isPrompt = false } = options
  const fd = withoutBlocking(STANDARD_OUTPUT)
  // A reopened stream does not block, and a file never stalls.
  const mayWriteNow = isPrompt && (fd !== STANDARD_OUTPUT || fstatSync(fd).isFile())
  let waiting: string[] = []
  let waitingBytes = 0
  let dropped = 0
  let reported = 0
  let busy = false
  let gone = false
  /** For the lines that are being written, and for those that wait. */
  let onCurrent: (() => void)[] = []
  let onNext: (() => void)[] = []

  const next = () => {
    busy = waiting.length > 0
    callAll(onCurrent)
    ;[onCurrent, onNext] = [onNext, onCurrent]
    if (!busy) return
    const bytes = Buffer.from(waiting.join(''))
    waiting = []
    waitingBytes = 0
    put(bytes)
    if (dropped === reported) return
    const lines = dropped - reported
    reported = dropped
    onDropped?.(lines)
  }

  const put = (bytes: Buffer) => {
    writeTo(fd, bytes, (error, count) => {
      if (error?.code === 'EAGAIN') {
        setTimeout(() => put(bytes), RETRY_MS)
        return
      }
      if (error !== null) {
        gone = true
        waiting = []
        callAll(onCurrent, onNext)
        return
      }
      if (count < bytes.length) put(bytes.subarray(count))
      else next()
    })
  }

  return {
    write(line) {
      if (gone) return
      const bytes = Buffer.byteLength(line)
      if (waitingBytes + bytes > waitingBytesMax) {
        dropped++
        return
      }
      if (!busy && mayWriteNow) {
        const rest = writtenNow(fd, Buffer.from(line))
        busy = rest.length > 0
        return busy ? put(rest) : undefined
      }
      waitingBytes += bytes
      if (waiting.push(line) > 0 && !busy) next()
    },
    dropped: () => dropped,
    onWritten(written) {
      if (!busy || gone) return written()
      ;(waiting.length > 0 ? onNext : onCurrent).push(written)
    },
  }
}

function callAll(...lists: (() => void)[][]): void {
  for (const call of lists.flatMap((list) => list.splice(0))) call()
}

/** Writes what fits now; returns the rest. The next write in the background reports errors. */
function writtenNow(fd: number, bytes: Buffer): Buffer {
  try {
    return bytes.subarray(writeSync(fd, bytes))
  } catch {
    return bytes
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
