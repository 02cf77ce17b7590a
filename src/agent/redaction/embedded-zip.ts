// Playwright's HTML report is one page that carries its data as a zip in base64: found, taken out, scrubbed and
// put back, while the page around it is scrubbed as the text that it is.
import { createReadStream, createWriteStream } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { recoded, type ScrubPass, scrubbing, type Standing, writingTo } from './scrub-pass.ts'

/** What comes before the base64. */
export const EMBEDDED_ZIP = 'data:application/zip;base64,'

/** Where the base64 stands in the file: bytes from its start, the end excluded. */
export interface EmbeddedZip {
  from: number
  to: number
}

/** Finds the first zip that a file carries. Rejects with what the file system throws. */
export async function findEmbeddedZip(path: string): Promise<EmbeddedZip | undefined> {
  let buffered = ''
  let before = 0
  let from: number | undefined
  for await (const piece of createReadStream(path, 'latin1') as AsyncIterable<string>) {
    buffered += piece
    if (from === undefined) {
      const at = buffered.indexOf(EMBEDDED_ZIP)
      const overlap = at < 0 ? Math.min(buffered.length, EMBEDDED_ZIP.length) : 0
      const gone = at < 0 ? buffered.length - overlap : at + EMBEDDED_ZIP.length
      if (at >= 0) from = before + gone
      before += gone
      buffered = buffered.slice(gone)
    }
    if (from === undefined) continue
    const end = buffered.search(/[^A-Za-z0-9+/=]/)
    if (end >= 0) return { from, to: before + end }
    before += buffered.length
    buffered = ''
  }
  return from === undefined ? undefined : { from, to: before }
}

/** Scrubs a file that carries a zip into `draft`, where there is one. */
export async function scrubEmbeddedZip(
  path: string,
  draft: string | undefined,
  { from, to }: EmbeddedZip,
  pass: ScrubPass,
  { folder, scrubInner }: Standing,
): Promise<void> {
  const zip = join(await folder(), 'embedded')
  await writeFile(zip, '')
  if (to > from) {
    const base64 = createReadStream(path, { start: from, end: to - 1 })
    await pipeline(base64, recoded(4, decode), createWriteStream(zip))
  }
  await scrubInner(zip)
  const parts = [
    [createReadStream(path, { end: from - 1 }), scrubbing(pass)],
    [createReadStream(zip), recoded(3, encode)],
    [createReadStream(path, { start: to }), scrubbing(pass)],
  ] as const
  for (const [source, step] of parts) {
    await pipeline(source, step, writingTo(draft, 'a'))
  }
}

const decode = (piece: Buffer) => Buffer.from(piece.toString('latin1'), 'base64')
const encode = (piece: Buffer) => Buffer.from(piece.toString('base64'))
