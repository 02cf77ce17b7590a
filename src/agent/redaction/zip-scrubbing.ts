// Writes a zip anew, each of its files scrubbed on the way; one file at a time, small ones in memory. Playwright's HTML
// report carries one in base64: it is taken out, scrubbed and put back, while the page around it is scrubbed as text.
import { createReadStream, createWriteStream } from 'node:fs'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { inflateRawSync } from 'node:zlib'
import { type Entry, fromBufferPromise, openPromise, type ZipFile as ZipReader } from 'yauzl'
import { ZipFile as ZipWriter } from 'yazl'
import { ByteScrubber } from './byte-scrubber.ts'
import { kindOf } from './file-kind.ts'
import {
  bounded,
  damaged,
  recoded,
  type ScrubPass,
  scrubbing,
  spend,
  type Standing,
  UnreadableFile,
  writingTo,
} from './scrub-pass.ts'

const ENTRIES_MAX = 50_000
/** Zips up to this size are read in one go, of which there are a few at a time. */
const READ_WHOLE_BYTES_MAX = 8 * 1024 * 1024
/** Files of a zip up to this size are scrubbed in memory. */
const SMALL_BYTES_MAX = 1024 * 1024
/** The writer buffers its input until its end: further entries wait on disk. */
const HELD_BYTES_MAX = 16 * 1024 * 1024
/** Of zlib: more takes twice the time for a tenth of the bytes. */
const LEVEL = 3

/** Scrubs the zip at `path` into `draft`, where there is one; what is large is unpacked into the folder on the way. */
export async function scrubZip(
  path: string,
  draft: string | undefined,
  pass: ScrubPass,
  standing: Standing,
): Promise<void> {
  const reader = await opened(path)
  const { writer, written } = draft === undefined ? {} : writerInto(draft)
  try {
    if (reader.entryCount > ENTRIES_MAX) {
      throw new UnreadableFile(`it contains ${reader.entryCount} files`)
    }
    await addEntries(reader, writer, pass, standing)
    writer?.end()
    await written
  } catch (error) {
    throw damaged(error)
  } finally {
    reader.close()
  }
}

function writerInto(draft: string) {
  const writer = new ZipWriter()
  const written = pipeline(writer.outputStream, createWriteStream(draft))
  writer.on('error', (error: Error) => (writer.outputStream as Readable).destroy(error))
  // Handled here and now: it may fail while nobody waits for it.
  written.catch(() => undefined)
  return { writer, written }
}

async function opened(path: string): Promise<ZipReader> {
  const { size } = await stat(path)
  const reader =
    size <= READ_WHOLE_BYTES_MAX
      ? fromBufferPromise(await readFile(path))
      : openPromise(path, { autoClose: false })
  return reader.catch((error: unknown) => {
    throw damaged(error)
  })
}

async function addEntries(
  reader: ZipReader,
  writer: ZipWriter | undefined,
  pass: ScrubPass,
  standing: Standing,
): Promise<void> {
  let number = 0
  let heldBytes = 0
  for await (const entry of reader.eachEntry()) {
    const name = scrubbed(Buffer.from(entry.fileName), pass).toString()
    const mtime = entry.getLastModDate()
    if (entry.fileName.endsWith('/')) {
      writer?.addEmptyDirectory(name, { mtime })
      continue
    }
    const isPacked = entry.compressionMethod !== 0
    const options = { mtime, ...(isPacked ? { compressionLevel: LEVEL } : { compress: false }) }
    const at = number++
    const file = async () => join(await standing.folder(), `zip-${at}`)
    const clean = await cleanContent(reader, entry, pass, { ...standing, file })
    if (writer === undefined) continue
    if (typeof clean === 'string') writer.addFile(clean, name, options)
    else if ((heldBytes += clean.length) <= HELD_BYTES_MAX) writer.addBuffer(clean, name, options)
    else {
      const path = await file()
      await writeFile(path, clean)
      writer.addFile(path, name, options)
    }
  }
}

/** The scrubbed content, or the path of a file that holds it. */
async function cleanContent(
  reader: ZipReader,
  entry: Entry,
  pass: ScrubPass,
  { file, scrubInner }: Standing & { file: () => Promise<string> },
): Promise<Buffer | string> {
  const small = await smallContent(reader, entry, pass)
  if (small !== undefined) {
    const kind = kindOf(small)
    if (kind === 'media') return small
    if (kind === 'closed') return leftOut('its compression method is not supported', pass)
    if (kind === 'bytes' && !small.includes(EMBEDDED_ZIP)) return scrubbed(small, pass)
  }
  const path = await file()
  if (small === undefined) {
    const packed = await reader.openReadStreamPromise(entry)
    await pipeline(packed, bounded(pass), createWriteStream(path))
  } else await writeFile(path, small)
  return scrubInner(path).then(
    () => path,
    (error: unknown) => leftOutFor(error, pass),
  )
}

/** What is small is had without streams, which cost several times as much as what goes through them. */
async function smallContent(
  reader: ZipReader,
  entry: Entry,
  pass: ScrubPass,
): Promise<Buffer | undefined> {
  const { uncompressedSize, compressedSize, compressionMethod } = entry
  const isPlain = compressionMethod === 0 || compressionMethod === DEFLATED
  // What cannot be read is refused where the rest is read.
  if (!isPlain || entry.isEncrypted()) return undefined
  if (Math.max(uncompressedSize, compressedSize) > SMALL_BYTES_MAX) return undefined
  spend(uncompressedSize, pass)
  const packed = await buffer(await reader.openReadStreamPromise(entry, { decodeFileData: false }))
  if (compressionMethod === 0) return packed
  const bytes = inflateRawSync(packed, { maxOutputLength: SMALL_BYTES_MAX })
  if (bytes.length !== uncompressedSize) throw new UnreadableFile('it is damaged (a wrong size)')
  return bytes
}

/** Of zip (APPNOTE 4.4.5). */
const DEFLATED = 8

/** The rest of a trace is worth having; what fills the disk is not. */
function leftOutFor(error: unknown, pass: ScrubPass): Buffer {
  if (!(error instanceof UnreadableFile) || pass.budget.unpackedBytes < 0) throw error
  return leftOut(error.message, pass)
}

/** Stands for a file of a zip, such as what a page has loaded, that cannot be looked into. */
function leftOut(why: string, pass: ScrubPass): Buffer {
  pass.onTouch?.()
  return Buffer.from(`This file is left out: ${why}.\n`)
}

function scrubbed(bytes: Buffer, pass: ScrubPass): Buffer {
  const scrubber = new ByteScrubber(pass.rules, pass)
  return Buffer.concat([scrubber.write(bytes), scrubber.end()])
}

/** What comes before the base64 of a zip, and with what that begins. */
const PREFIX = 'data:application/zip;base64,'
const EMBEDDED_ZIP = `${PREFIX}UEs`
const NO_BASE64 = /[^A-Za-z0-9+/=]/g

/** Where the base64 stands in the file: bytes from its start, the end excluded. */
export interface EmbeddedZip {
  from: number
  to: number
}

/** Finds the zips that a file carries. Rejects with what the file system throws. */
export async function embeddedZips(path: string): Promise<EmbeddedZip[]> {
  const zips: EmbeddedZip[] = []
  let buffered = ''
  let before = 0
  let from = -1
  for await (const piece of createReadStream(path, 'latin1') as AsyncIterable<string>) {
    buffered += piece
    let at = 0
    while (from >= 0 || buffered.includes(EMBEDDED_ZIP, at)) {
      if (from < 0) {
        at = buffered.indexOf(EMBEDDED_ZIP, at) + PREFIX.length
        from = before + at
      }
      NO_BASE64.lastIndex = at
      const end = NO_BASE64.exec(buffered)?.index
      at = end ?? buffered.length
      if (end === undefined) break
      zips.push({ from, to: before + end })
      from = -1
    }
    // The prefix may begin in this piece, and end in the next one.
    if (from < 0) at = Math.max(at, buffered.length - EMBEDDED_ZIP.length)
    before += at
    buffered = buffered.slice(at)
  }
  if (from >= 0) zips.push({ from, to: before + buffered.length })
  return zips
}

/** Scrubs a file that carries zips into `draft`, where there is one. */
export async function scrubEmbeddedZips(
  path: string,
  draft: string | undefined,
  zips: readonly EmbeddedZip[],
  pass: ScrubPass,
  { folder, scrubInner }: Standing,
): Promise<void> {
  const unpacked = join(await folder(), 'embedded')
  const scrubText = (start: number, end = Infinity) =>
    pipeline(createReadStream(path, { start, end }), scrubbing(pass), writingTo(draft, 'a'))
  let at = 0
  for (const { from, to } of zips) {
    await scrubText(at, from - 1)
    const base64 = createReadStream(path, { start: from, end: to - 1 })
    await pipeline(base64, recoded(4, decode), createWriteStream(unpacked))
    await scrubInner(unpacked)
    await pipeline(createReadStream(unpacked), recoded(3, encode), writingTo(draft, 'a'))
    at = to
  }
  await scrubText(at)
}

const decode = (piece: Buffer) => Buffer.from(piece.toString('latin1'), 'base64')
const encode = (piece: Buffer) => Buffer.from(piece.toString('base64'))
