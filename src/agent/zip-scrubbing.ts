// Writes a zip anew, each of its files scrubbed on the way; one file at a time, small ones in memory.
import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline as connected, Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { type Entry, openPromise, type ZipFile as ZipReader } from 'yauzl'
import { ZipFile as ZipWriter } from 'yazl'
import { ByteScrubber } from './byte-scrubber.ts'
import { EMBEDDED_ZIP } from './embedded-zip.ts'
import { kindOf } from './file-kind.ts'
import { bounded, type ScrubPass, type Standing, UnreadableFile } from './scrub-pass.ts'

/** Files of one zip. */
const ENTRIES_MAX = 50_000
/** Files up to this size are scrubbed in memory. */
const SMALL_BYTES_MAX = 1024 * 1024
/** The writer keeps what it was handed until its end: further ones wait on disk. */
const HELD_BYTES_MAX = 16 * 1024 * 1024
/** Of zlib: more takes twice the time for a tenth of the bytes. */
const LEVEL = 3

/** Scrubs the zip at `path` into `draft`; what is large is unpacked into the folder on the way. */
export async function scrubZip(
  path: string,
  draft: string,
  pass: ScrubPass,
  standing: Standing,
): Promise<void> {
  const reader = await openPromise(path, { autoClose: false }).catch((error: unknown) => {
    throw damaged(error)
  })
  const writer = pass.writes ? new ZipWriter() : undefined
  const written = writer && pipeline(writer.outputStream, createWriteStream(draft))
  writer?.on('error', (error: Error) => (writer.outputStream as Readable).destroy(error))
  // Handled here and now: it may fail while nobody waits for it.
  written?.catch(() => undefined)
  try {
    if (reader.entryCount > ENTRIES_MAX) {
      throw new UnreadableFile(`it holds ${reader.entryCount} files`)
    }
    const folder = await mkdtemp(join(standing.folder, 'zip-'))
    await addEntries(reader, writer, pass, { ...standing, folder })
    writer?.end()
    await written
  } catch (error) {
    throw damaged(error)
  } finally {
    reader.close()
  }
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
    const file = join(standing.folder, String(number++))
    const clean = await cleanContent(reader, entry, pass, { ...standing, file })
    if (writer === undefined) continue
    if (typeof clean === 'string') writer.addFile(clean, name, options)
    else if ((heldBytes += clean.length) <= HELD_BYTES_MAX) writer.addBuffer(clean, name, options)
    else {
      await writeFile(file, clean)
      writer.addFile(file, name, options)
    }
  }
}

/** The scrubbed content, or the path of a file that holds it. */
async function cleanContent(
  reader: ZipReader,
  entry: Entry,
  pass: ScrubPass,
  { file, scrubInner }: Standing & { file: string },
): Promise<Buffer | string> {
  const packed = await reader.openReadStreamPromise(entry)
  // Who reads it hears of what goes wrong on either end.
  const content = connected(packed, bounded(pass), () => undefined)
  let source: Readable = content
  if (entry.uncompressedSize <= SMALL_BYTES_MAX) {
    const bytes = await buffer(content)
    const kind = kindOf(bytes)
    if (kind === 'media') return bytes
    if (kind === 'closed') return leftOut('it is packed in a way that is not looked into', pass)
    if (kind === 'bytes' && !bytes.includes(EMBEDDED_ZIP)) return scrubbed(bytes, pass)
    const known = kind === 'zip' ? pass.done.get(sha256Of(bytes)) : undefined
    if (known?.isTouched === true) pass.onTouch?.()
    if (known !== undefined) return known.path
    source = Readable.from([bytes])
  }
  await pipeline(source, createWriteStream(file))
  return scrubInner(file).then(
    () => file,
    (error: unknown) => leftOutFor(error, pass),
  )
}

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

const sha256Of = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

function scrubbed(bytes: Buffer, pass: ScrubPass): Buffer {
  const scrubber = new ByteScrubber(pass.rules, pass)
  return Buffer.concat([scrubber.write(bytes), scrubber.end()])
}

/** What yauzl and zlib say of a bad zip, as what it means for us. */
function damaged(error: unknown): unknown {
  if (error instanceof UnreadableFile || !(error instanceof Error)) return error
  const { code } = error as NodeJS.ErrnoException
  const isOfSystem = code !== undefined && !code.startsWith('Z_')
  return isOfSystem ? error : new UnreadableFile(`it is damaged (${error.message})`)
}
