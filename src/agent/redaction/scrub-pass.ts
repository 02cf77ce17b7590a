// Parts of file scrubbing: the rules of a pass, the context of a file, and the streams.
import { Transform } from 'node:stream'
import { type ByteRules, ByteScrubber, type ScrubberListener } from './byte-scrubber.ts'

/** How one pass over files goes. */
export interface ScrubPass extends ScrubberListener {
  rules: ByteRules
  /** SHA-256 of the original zips → their outcome: reports contain copies of traces. */
  zips: Map<string, Promise<ScrubbedZip>>
  /** Finished zips. A zip may contain itself, so nested ones must not wait. */
  done: Map<string, ScrubbedZip>
  /** False for a pass that only searches. */
  writes: boolean
  /** Bytes that may still be unpacked, of all files together. */
  budget: { unpackedBytes: number }
}

/** A processed zip. */
export interface ScrubbedZip {
  path: string
  isTouched: boolean
}

/** The file cannot be scrubbed. */
export class UnreadableFile extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'UnreadableFile'
  }
}

/** Where a file stands: the folder for what is unpacked on the way, and how files in there are scrubbed. */
export interface Standing {
  /** Makes it at the first call. */
  readonly folder: () => Promise<string>
  /** Scrubs a file that was unpacked from this one, in place. */
  readonly scrubInner: (path: string) => Promise<void>
}

/** A stream that scrubs what goes through it. */
export function scrubbing(pass: ScrubPass): Transform {
  const scrubber = new ByteScrubber(pass.rules, pass)
  return new Transform({
    transform(piece: Buffer, _, done) {
      done(null, scrubber.write(piece))
    },
    flush(done) {
      done(null, scrubber.end())
    },
  })
}

/** Takes what is unpacked off the budget. Throws UnreadableFile when it is more than may be. */
export function spend(bytes: number, { budget }: ScrubPass): void {
  budget.unpackedBytes -= bytes
  if (budget.unpackedBytes < 0) throw new UnreadableFile('it is too large when it is unpacked')
}

/** A stream that ends in an error when more is unpacked than may be. */
export function bounded(pass: ScrubPass): Transform {
  return new Transform({
    transform(piece: Buffer, _, done) {
      spend(piece.length, pass)
      done(null, piece)
    },
  })
}
