// Lines that user code writes, in a stream or in a file, within a bound for each line.
import type { FileHandle } from 'node:fs/promises'
import { StringDecoder } from 'node:string_decoder'
import { setTimeout as delay } from 'node:timers/promises'

/** Splits pieces of a text into lines; those of more bytes than the bound are dropped. */
export class LineSplitter {
  readonly #bytesMax: number
  readonly #decoder = new StringDecoder()
  #rest = ''
  #isSkipping = false

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** The lines that the piece completes. */
  add(piece: Buffer): string[] {
    const lines = (this.#rest + this.#decoder.write(piece)).split('\n')
    this.#rest = lines.pop() ?? ''
    // The first one is the end of a line whose beginning was too long already.
    if (this.#isSkipping && lines.length > 0) {
      this.#isSkipping = false
      lines.shift()
    }
    if (!this.#fits(this.#rest)) {
      this.#rest = ''
      this.#isSkipping = true
    }
    return lines.filter((line) => this.#fits(line))
  }

  #fits(line: string): boolean {
    return Buffer.byteLength(line) <= this.#bytesMax
  }
}

const EVERY_MS = 100
const CHUNK_BYTES = 262_144

export interface FollowBounds {
  /** Of the whole file; what comes after is left out. */
  bytesMax: number
  /** Of one line; longer ones are dropped. */
  lineBytesMax: number
}

/**
 * Calls back with each line of a file that grows, until `over` is aborted and all is read. It reads through a descriptor
 * that is open already, so that the writer cannot lead it elsewhere. Rejects with what the callback throws.
 */
export async function followLines(
  file: FileHandle,
  { bytesMax, lineBytesMax }: FollowBounds,
  over: AbortSignal,
  each: (line: string) => void,
): Promise<void> {
  const lines = new LineSplitter(lineBytesMax)
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES)
  for (let at = 0; at < bytesMax;) {
    const isLast = over.aborted
    if (!isLast) await delay(EVERY_MS, undefined, { signal: over }).catch(() => {})
    const { bytesRead } = await file.read(chunk, 0, CHUNK_BYTES, at).catch(() => NOTHING)
    at += bytesRead
    for (const line of lines.add(chunk.subarray(0, bytesRead))) each(line)
    if (isLast && bytesRead === 0) return
  }
}

const NOTHING = { bytesRead: 0 }
