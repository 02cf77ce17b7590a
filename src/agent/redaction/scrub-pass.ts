// Parts of file scrubbing: the rules of a pass, the context of a file, and the steps of streams.
import { createWriteStream } from 'node:fs'
import { Writable } from 'node:stream'
import { type ByteRules, ByteScrubber, type ScrubberListener } from './byte-scrubber.ts'

export interface ScrubPass extends ScrubberListener {
  rules: ByteRules
  /** SHA-256 of the original zips → their outcome: reports contain copies of traces. */
  done: Map<string, ScrubbedZip>
  /** False for a pass that only searches. */
  writes: boolean
  /** Bytes that may still be unpacked, of all files together. */
  budget: { unpackedBytes: number }
}

interface ScrubbedZip {
  path: string
  isTouched: boolean
}

export class UnreadableFile extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'UnreadableFile'
  }
}

/** Where a file stands: the folder for what is unpacked on the way, and how files in there are scrubbed. */
export interface Standing {
  readonly folder: () => Promise<string>
  /** Scrubs a file that was unpacked from this one, in place. */
  readonly scrubInner: (path: string) => Promise<void>
}

/** A step between two streams. */
type Step = (pieces: AsyncIterable<Buffer>) => AsyncGenerator<Buffer, void>

export function scrubbing(pass: ScrubPass): Step {
  return async function* (pieces) {
    const scrubber = new ByteScrubber(pass.rules, pass)
    for await (const piece of pieces) yield scrubber.write(piece)
    yield scrubber.end()
  }
}

/** A step that throws UnreadableFile when more is unpacked than may be. */
export function bounded(pass: ScrubPass): Step {
  return async function* (pieces) {
    for await (const piece of pieces) {
      spend(piece.length, pass)
      yield piece
    }
  }
}

/** A step that turns pieces of a multiple of `unit` bytes into others, like base64. */
export function recoded(unit: number, recode: (piece: Buffer) => Buffer): Step {
  return async function* (pieces) {
    let rest: Buffer = Buffer.alloc(0)
    for await (const piece of pieces) {
      const all = Buffer.concat([rest, piece])
      const whole = all.length - (all.length % unit)
      rest = all.subarray(whole)
      yield recode(all.subarray(0, whole))
    }
    yield recode(rest)
  }
}

/** The end of a stream; nothing is written in a pass that only searches, which has no draft. */
export function writingTo(draft: string | undefined, flags = 'w'): Writable {
  if (draft !== undefined) return createWriteStream(draft, { flags })
  return new Writable({ write: (_piece, _encoding, done) => done() })
}

/** Takes what is unpacked off the budget. Throws UnreadableFile when it is more than may be. */
export function spend(bytes: number, { budget }: ScrubPass): void {
  budget.unpackedBytes -= bytes
  if (budget.unpackedBytes < 0) throw new UnreadableFile('it is too large when decompressed')
}

/** What yauzl and zlib say of damaged bytes, as what it means for us. Names of entries stand behind a colon. */
export function damaged(error: unknown): unknown {
  if (error instanceof UnreadableFile || !(error instanceof Error)) return error
  const { code } = error as NodeJS.ErrnoException
  const isOfSystem = code !== undefined && !code.startsWith('Z_')
  return isOfSystem
    ? error
    : new UnreadableFile(`it is damaged (${error.message.split(':', 1)[0]})`)
}
