// Follows a file that grows by lines, through a descriptor that is open already: its writer cannot
// lead the reader elsewhere, or make it read without end.
import type { FileHandle } from 'node:fs/promises'

const EVERY_MS = 100
const CHUNK_BYTES = 262_144

/** How much is read. */
export interface TailBounds {
  /** Of the whole file; what comes after is left out. */
  bytesMax: number
  /** Of one line; longer ones are dropped. */
  lineBytesMax: number
}

/** One file that is followed. */
export class LineTail {
  readonly #file: FileHandle
  readonly #bounds: TailBounds
  readonly #decoder = new TextDecoder()
  readonly #chunk = Buffer.allocUnsafe(CHUNK_BYTES)
  #at = 0
  #rest = ''
  #skipping = false
  #timer: NodeJS.Timeout | undefined
  #reading: Promise<void> = Promise.resolve()
  #each: ((line: string) => void) | undefined
  #failed: (error: unknown) => void = () => {}

  constructor(file: FileHandle, bounds: TailBounds) {
    this.#file = file
    this.#bounds = bounds
  }

  /** Calls back with each line as it comes, until `stop`; when that throws, calls `failed` and ends. */
  follow(each: (line: string) => void, failed: (error: unknown) => void): void {
    this.#each = each
    this.#failed = failed
    this.#later()
  }

  /** Reads what is there, whole; a last line without an end is dropped. Never rejects. */
  async rest(): Promise<void> {
    this.stop()
    await this.#reading
    await this.#read(Infinity)
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #later(): void {
    this.#timer = setTimeout(() => {
      this.#reading = this.#look()
    }, EVERY_MS)
  }

  async #look(): Promise<void> {
    await this.#read(1)
    if (this.#timer !== undefined) this.#later()
  }

  async #read(chunksMax: number): Promise<void> {
    for (let chunks = 0; chunks < chunksMax && this.#at < this.#bounds.bytesMax; chunks++) {
      const { bytesRead } = await this.#file
        .read(this.#chunk, 0, CHUNK_BYTES, this.#at)
        .catch(() => ({ bytesRead: 0 }))
      if (bytesRead === 0) return
      this.#at += bytesRead
      this.#addText(this.#decoder.decode(this.#chunk.subarray(0, bytesRead), { stream: true }))
    }
  }

  #addText(text: string): void {
    const lines = (this.#rest + text).split('\n')
    this.#rest = lines.pop() ?? ''
    for (const line of lines) {
      if (!this.#skipping && this.#fits(line)) this.#call(line)
      this.#skipping = false
    }
    if (this.#fits(this.#rest)) return
    this.#rest = ''
    this.#skipping = true
  }

  #fits(line: string): boolean {
    return Buffer.byteLength(line) <= this.#bounds.lineBytesMax
  }

  #call(line: string): void {
    try {
      this.#each?.(line)
    } catch (error) {
      this.#each = undefined
      this.#failed(error)
    }
  }
}
