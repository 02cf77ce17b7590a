// Reads a JSON body within its bounds: bytes, time, nesting, and text that PostgreSQL can store.
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import type { Context } from 'hono'
import { API_BOUNDS } from '../../contract/api/bounds.ts'
import { parseExactJson } from '../../contract/exact-json.ts'
import { ApiError, tooLarge, UNREAD } from './errors.ts'

const JSON_TYPE = /^application\/json\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?;?\s*$/i

/**
 * The JSON body of a request. Throws ApiError: 415 for another content type or coding, 413 past
 * `bodyBytesMax`, 408 when the sender is slower than `bodyMs`, 400 for invalid JSON, deep nesting or text that
 * cannot be stored. Of duplicate keys the last one counts.
 */
export async function readJson(c: Context, bounds: BodyBounds = API_BOUNDS): Promise<unknown> {
  const value = parse(await readJsonBytes(c, bounds))
  checkValue(value, bounds.jsonDepthMax)
  return value
}

/** The bytes of a JSON body, decompressed. Throws like `readJson`, apart from what is wrong within the JSON. */
export async function readJsonBytes(
  c: Context,
  bounds: Omit<BodyBounds, 'jsonDepthMax'>,
): Promise<Buffer> {
  const { bodyBytesMax, unpackedBytesMax = bodyBytesMax } = bounds
  const type = c.req.header('content-type') ?? ''
  if (!JSON_TYPE.test(type)) {
    throw new ApiError(415, 'The body must be application/json in UTF-8', UNREAD)
  }
  const coding = (c.req.header('content-encoding') ?? 'identity').toLowerCase()
  const isPacked = bounds.gzip === true && coding === 'gzip'
  if (coding !== 'identity' && !isPacked) {
    const allowed = bounds.gzip === true ? 'must be plain or gzip' : 'must not be compressed'
    throw new ApiError(415, `The body ${allowed}`, UNREAD)
  }
  const announced = Number(c.req.header('content-length') ?? 0)
  if (announced > bodyBytesMax) throw tooLarge(bodyBytesMax, 'The body')
  const bytes = await readBytes(c, bounds)
  return isPacked ? unpacked(bytes, unpackedBytesMax) : bytes
}

/** How far a body may go. */
export interface BodyBounds {
  bodyBytesMax: number
  bodyMs: number
  jsonDepthMax: number
  /** Accepts gzip bodies. */
  gzip?: boolean
  /** Decompressed; `bodyBytesMax` by default. */
  unpackedBytesMax?: number
}

const unpack = promisify(gunzip)

async function unpacked(bytes: Buffer, maxOutputLength: number): Promise<Buffer> {
  try {
    return await unpack(bytes, { maxOutputLength })
  } catch (error) {
    const isLarge = (error as { code?: unknown }).code === 'ERR_BUFFER_TOO_LARGE'
    throw isLarge
      ? tooLarge(maxOutputLength, 'The body')
      : new ApiError(400, 'The body is not gzip')
  }
}

/** The bytes of a body. Throws ApiError: 413 past `bodyBytesMax`, 408 past `bodyMs`, 400 when it is cut off. */
export async function readBytes(
  c: Context,
  { bodyBytesMax, bodyMs }: Pick<BodyBounds, 'bodyBytesMax' | 'bodyMs'>,
): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of paced(c.req.raw.body, { bytes: Infinity, ms: bodyMs })) {
    bytes += chunk.byteLength
    if (bytes > bodyBytesMax) throw tooLarge(bodyBytesMax, 'The body')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks, bytes)
}

/** How much of a body has to arrive in which time, again and again. */
export interface Pace {
  bytes: number
  ms: number
}

/** Reads a body; the time of the consumer does not count as the sender's. Throws ApiError 408 and 400. */
export async function* paced(
  body: ReadableStream<Uint8Array> | null,
  pace: Pace,
): AsyncGenerator<Uint8Array> {
  if (body === null) return
  const reader = body.getReader()
  let ended = false
  let leftMs = pace.ms
  let bytes = 0
  try {
    for (;;) {
      const begin = performance.now()
      const { done, value } = await inTime(reader, leftMs, pace)
      ended = done
      if (done) return
      leftMs -= performance.now() - begin
      bytes += value.byteLength
      if (bytes >= pace.bytes) {
        bytes = 0
        leftMs = pace.ms
      }
      yield value
    }
  } finally {
    // The rest of the body ends with the connection; waiting for it is not needed.
    if (!ended) reader.cancel().catch(() => {})
  }
}

async function inTime(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  withinMs: number,
  { bytes, ms }: Pace,
) {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(tooSlow(ms, bytes)), Math.max(0, withinMs))
  })
  try {
    return await Promise.race([reader.read(), late])
  } catch (error) {
    throw error instanceof ApiError ? error : new ApiError(400, 'The body ended early', UNREAD)
  } finally {
    clearTimeout(timer)
  }
}

/** 408 for a body of which `bytes` have not arrived in time; without a number, all of it. */
export function tooSlow(ms: number, bytes = Infinity): ApiError {
  const must = bytes === Infinity ? `arrive within ${ms} ms` : `bring ${bytes} bytes in ${ms} ms`
  return new ApiError(408, `The body must ${must}`, UNREAD)
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

function parse(bytes: Buffer): unknown {
  let text: string
  try {
    text = utf8.decode(bytes)
  } catch {
    throw new ApiError(400, 'The body is not UTF-8')
  }
  try {
    return parseExactJson(text, writtenTarget)
  } catch {
    throw new ApiError(400, 'The body is not JSON')
  }
}

/** A long integer as target of an assertion becomes a text with all its digits. */
function writtenTarget(digits: string, key: string | number): string | number {
  return key === 'target' ? digits : Number(digits)
}

/** Rejects deep nesting and text that PostgreSQL cannot store; iterates without recursion. */
function checkValue(root: unknown, depthMax: number): void {
  let level: unknown[] = [root]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > depthMax) throw new ApiError(400, `The body is nested deeper than ${depthMax}`)
    const next: unknown[] = []
    for (const value of level) {
      if (typeof value === 'string') checkText(value)
      else if (Array.isArray(value)) for (const one of value) next.push(one)
      else if (typeof value === 'object' && value !== null) {
        for (const [key, one] of Object.entries(value)) {
          checkText(key)
          if (key === '__proto__') throw new ApiError(400, 'Unknown field "__proto__"')
          next.push(one)
        }
      }
    }
    level = next
  }
}

function checkText(text: string): void {
  if (text.includes('\0')) throw new ApiError(400, 'Text must not contain the character U+0000')
  if (!text.isWellFormed()) throw new ApiError(400, 'Text must not contain half a surrogate pair')
}
