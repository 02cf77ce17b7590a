// Takes secrets out of a file: in texts, in traces and reports (zip, also inside of one another and inside of
// HTML), in what is packed with gzip, whatever that is. What cannot be read to its end is no file that may leave.
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { copyFile, mkdtemp, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'
import { type FileKind, kindOfFile } from './file-kind.ts'
import {
  bounded,
  damaged,
  type ScrubPass,
  scrubbing,
  type Standing,
  UnreadableFile,
  writingTo,
} from './scrub-pass.ts'
import { embeddedZips, scrubEmbeddedZips, scrubZip } from './zip-scrubbing.ts'

/** Levels of nested archives; Playwright's reports have two. */
const DEPTH_MAX = 3

/**
 * Scrubs a file in place. Rejects with UnreadableFile when it is damaged, too deep or too large, or with
 * what the file system throws; the file is as it was then.
 */
export async function scrubFile(path: string, pass: ScrubPass, depth = 0): Promise<void> {
  const kind = await kindOfFile(path)
  if (kind === 'media') return
  if (kind !== 'zip') return scrubOfKind(path, kind, pass, depth)
  // The same zip again, such as a trace in a report, is as it was scrubbed the first time.
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  const sha256 = hash.digest('hex')
  const known = pass.done.get(sha256)
  if (known !== undefined) {
    if (known.isTouched) pass.onTouch?.()
    if (pass.writes) await copyFile(known.path, path)
    return
  }
  let isTouched = false
  const onTouch = () => {
    isTouched = true
    pass.onTouch?.()
  }
  await scrubOfKind(path, 'zip', { ...pass, onTouch }, depth)
  // Inner files are removed when the outer ones are done.
  if (depth === 0) pass.done.set(sha256, { path, isTouched })
}

async function scrubOfKind(
  path: string,
  kind: FileKind,
  pass: ScrubPass,
  depth: number,
): Promise<void> {
  let made: Promise<string> | undefined
  const folder = () => (made ??= mkdtemp(join(dirname(path), '.scrub-')))
  try {
    const draft = pass.writes ? join(await folder(), 'clean') : undefined
    const scrubInner = (inner: string) => scrubFile(inner, pass, depth + 1)
    await scrubInto(draft, path, kind, pass, { depth, folder, scrubInner })
    if (draft !== undefined) await rename(draft, path)
  } finally {
    if (made !== undefined) await rm(await made, { recursive: true, force: true })
  }
}

/** A pass that only looks has no draft. */
async function scrubInto(
  draft: string | undefined,
  path: string,
  kind: FileKind,
  pass: ScrubPass,
  standing: Standing & { depth: number },
): Promise<void> {
  if (kind === 'closed') throw new UnreadableFile('its compression method is not supported')
  if (kind !== 'bytes' && standing.depth >= DEPTH_MAX) {
    throw new UnreadableFile('its archives are nested too deeply')
  }
  const asBytes = () => pipeline(createReadStream(path), scrubbing(pass), writingTo(draft))
  if (kind === 'bytes') {
    const zips = await embeddedZips(path)
    return zips.length === 0 ? asBytes() : scrubEmbeddedZips(path, draft, zips, pass, standing)
  }
  // There may be text between the files of a zip and in the header of a gzip too.
  if (!pass.writes) await asBytes()
  return kind === 'zip'
    ? scrubZip(path, draft, pass, standing)
    : scrubGzip(path, draft, pass, standing)
}

async function scrubGzip(
  path: string,
  draft: string | undefined,
  pass: ScrubPass,
  { folder, scrubInner }: Standing,
): Promise<void> {
  const inner = join(await folder(), 'unpacked')
  const packed = createReadStream(path)
  const gunzip = createGunzip()
  await pipeline(packed, gunzip, bounded(pass), createWriteStream(inner)).catch(
    (error: unknown) => {
      throw damaged(error)
    },
  )
  // Node.js reads no further where zeros stand between two members; other programs do.
  if (gunzip.bytesWritten < packed.bytesRead) throw new UnreadableFile('it does not end as gzip')
  await scrubInner(inner)
  if (draft === undefined) return
  await pipeline(createReadStream(inner), createGzip(), createWriteStream(draft))
}
