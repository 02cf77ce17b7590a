// Reads and unpacks the body of an HTTP answer, up to the limits. Counts the bytes before and after unpacking, and
// buffers only the part that is needed later.
import type { Readable, Transform } from 'node:stream'
import {
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
  constants,
} from 'node:zlib'
import { failure, type Failure } from '../../contract/failure.ts'
import { LIMITS } from '../../contract/versions.ts'
import { addChunk } from '../chunks.ts'
import { bodyBudget } from './body-budget.ts'

export interface Body {
  /** Bytes received, before unpacking. */
  bytes: number
  /** Bytes after unpacking; the same without an encoding. */
  unpackedBytes: number
  /** The decoded encodings, as Content-Encoding names them. */
  encodings: string[]
  /** The unpacked beginning, up to `bufferBytes` of readBody. */
  chunks: Buffer[]
  bufferedBytes: number
  /** Released: further bytes are not buffered. */
  released: boolean
}

export function emptyBody(): Body {
  return {
    bytes: 0,
    unpackedBytes: 0,
    encodings: [],
    chunks: [],
    bufferedBytes: 0,
    released: false,
  }
}

/** Frees the buffered bytes when they are not needed any more, and releases them in the budget of all runs. */
export function releaseBody(body: Body): void {
  if (body.released) return
  body.released = true
  bodyBudget.release(body.bufferedBytes)
  body.chunks = []
}

/** Supported encodings, the preferred one last, as in browsers. */
export const ACCEPT_ENCODING = 'gzip, deflate, br, zstd'

// No honest server applies more encodings.
const ENCODINGS_MAX = 3

/**
 * Reads a body in this encoding (Content-Encoding) to the end, or to the first failure: HTTP_BODY_TOO_LARGE,
 * HTTP_UNPACKED_TOO_LARGE, HTTP_BODY_UNDECODABLE, RESOURCES_EXHAUSTED when the budget of all runs is used up.
 * Buffers at most `bufferBytes`, until `releaseBody`. The first call of `done` counts; the caller listens for errors
 * of the stream, and destroys the connection. Returns a function that stops reading.
 */
export function readBody(
  stream: Readable,
  encoding: string | undefined,
  body: Body,
  bufferBytes: number,
  done: (failed?: Failure) => void,
): () => void {
  if (encoding !== undefined) body.encodings = encodingsOf(encoding)
  let decoders: Transform[] = []
  const store = (chunk: Buffer) => {
    body.unpackedBytes += chunk.length
    if (body.unpackedBytes > LIMITS.unpackedBytesMax) done(unpackedTooLarge(body))
    else if (!buffer(body, chunk, bufferBytes)) done(bodyBudget.exceeded())
  }
  const start = (firstByte: number): Transform => {
    if (body.encodings.length > ENCODINGS_MAX) {
      const count = body.encodings.length
      body.encodings = body.encodings.slice(0, ENCODINGS_MAX)
      throw new TypeError(`${count} nested encodings`)
    }
    decoders = body.encodings
      .toReversed()
      .map((name, at) => (DECODERS.get(name) as MakeDecoder)(firstByte, at))
    for (const [at, decoder] of decoders.entries()) {
      decoder.on('error', (error) => done(undecodable(body, error)))
      const next = decoders[at + 1]
      if (next !== undefined) decoder.pipe(next)
    }
    const last = decoders.at(-1) as Transform
    last.on('data', store).on('end', () => done())
    return decoders[0] as Transform
  }
  let first: Transform | undefined
  stream.on('data', (chunk: Buffer) => {
    body.bytes += chunk.length
    if (body.bytes > LIMITS.bodyBytesMax) {
      done(tooLarge())
      return
    }
    if (body.encodings.length === 0) {
      store(chunk)
      return
    }
    try {
      first ??= start(chunk[0] as number)
    } catch (error) {
      done(undecodable(body, error as Error))
      return
    }
    if (first.write(chunk)) return
    stream.pause()
    first.once('drain', () => stream.resume())
  })
  stream.on('end', () => (first === undefined ? done() : first.end()))
  return () => {
    for (const decoder of decoders) decoder.destroy()
  }
}

/** Buffers the chunk up to the limit of this body; false when the budget of all runs is used up. */
function buffer(body: Body, chunk: Buffer, bufferBytes: number): boolean {
  const bytes = Math.min(bufferBytes - body.bufferedBytes, chunk.length)
  if (bytes <= 0 || body.released) return true
  if (!bodyBudget.reserve(bytes)) return false
  addChunk(body.chunks, chunk.length > bytes ? chunk.subarray(0, bytes) : chunk)
  body.bufferedBytes += bytes
  return true
}

type MakeDecoder = (firstByte: number, at: number) => Transform

const DECODERS: ReadonlyMap<string, MakeDecoder> = new Map([
  ['gzip', () => createGunzip()],
  ['x-gzip', () => createGunzip()],
  ['br', () => createBrotliDecompress()],
  // RFC 9659 limits the window for content codings to 8 MB, and with it our memory.
  ['zstd', () => createZstdDecompress({ params: { [constants.ZSTD_d_windowLogMax]: 23 } })],
  ['deflate', inflate],
])

/** `deflate` is the zlib format (RFC 9110), but some servers send raw deflate data. */
function inflate(firstByte: number, at: number): Transform {
  const wrapped = at > 0 || (firstByte & 0x0f) === 8
  return wrapped ? createInflate() : createInflateRaw()
}

/** The supported ones; as in browsers, a body with an unknown encoding is read as it is. */
function encodingsOf(header: string): string[] {
  const names = header.split(',').map((name) => name.trim().toLowerCase())
  return names.every((name) => DECODERS.has(name) || name === 'identity' || name === '')
    ? names.filter((name) => DECODERS.has(name))
    : []
}

function tooLarge(): Failure {
  const limitBytes = LIMITS.bodyBytesMax
  return failure('HTTP_BODY_TOO_LARGE', `the body is larger than ${limitBytes} bytes`, {
    limitBytes,
  })
}

function unpackedTooLarge(body: Body): Failure {
  const limitBytes = LIMITS.unpackedBytesMax
  return failure(
    'HTTP_UNPACKED_TOO_LARGE',
    `the body (${body.encodings.join(', ')}) decompresses to more than ${limitBytes} bytes`,
    { limitBytes, bytes: body.bytes },
  )
}

function undecodable(body: Body, error: Error): Failure {
  return failure(
    'HTTP_BODY_UNDECODABLE',
    `the body is not valid ${body.encodings.join(', ')}: ${error.message}`,
    { encodings: body.encodings },
  )
}
