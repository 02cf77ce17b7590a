// What an earlier run left in a spool's folder.
import { mkdir, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Log } from '../../../process/log.ts'
import { SpoolSegment, type SegmentPlace } from './segment.ts'

/** What was found. */
export interface FoundSegments {
  /** Oldest first; those that are done were removed. */
  segments: SpoolSegment[]
  /** Places that could not be read, with an unknown number of results. */
  damaged: number
  /** Results that could not be read. */
  damagedResults: number
  /** Bytes of files that are left alone. */
  foreignBytes: number
  /** Names are numbers; the greatest one. */
  lastName: number
}

const SEGMENT = /^(\d{16})\.seg$/
const NOTES = /^(\d{16})\.done$/

/** The name of a segment: sixteen digits, so that names sort as numbers do. */
export function segmentName(number: number): string {
  return String(number).padStart(16, '0')
}

/**
 * Reads the folder, which is made when it is missing. Files that cannot be read or are of a later version
 * are left alone. Rejects when there can be no such folder.
 */
export async function findSegments(place: SegmentPlace, log: Log): Promise<FoundSegments> {
  const { folder } = place
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const files = (await readdir(folder)).toSorted()
  const names = files.flatMap((file) => SEGMENT.exec(file)?.[1] ?? [])
  const lastName = Math.max(0, ...names.slice(-1).map(Number))
  const nothing = { segments: [], damaged: 0, damagedResults: 0, foreignBytes: 0 }
  const result: FoundSegments = { ...nothing, lastName }
  for (const name of names) await readOne(place, name, result, log)
  const known = new Set(names)
  for (const file of files) {
    const name = NOTES.exec(file)?.[1]
    if (name !== undefined && !known.has(name)) await rm(join(folder, file), { force: true })
  }
  return result
}

async function readOne(
  place: SegmentPlace,
  name: string,
  result: FoundSegments,
  log: Log,
): Promise<void> {
  try {
    const found = await SpoolSegment.found(place, name)
    if (found === 'later version') throw new Error('it is of a later version')
    result.damaged += found.damaged
    result.damagedResults += found.damagedResults
    if (found.segment.isDone()) await found.segment.remove()
    else result.segments.push(found.segment)
  } catch (error) {
    log.warn({ file: name, err: error }, 'a spool file cannot be used; it is left alone')
    const found = await stat(join(place.folder, `${name}.seg`)).catch(() => ({ size: 0 }))
    result.foreignBytes += found.size
  }
}
