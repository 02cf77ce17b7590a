// Text of the answer to a sync. It may contain ten thousand monitors: they are read, decrypted and compressed
// in small parts, so that other calls are answered between them.
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { createGzip } from 'node:zlib'
import type { SyncAnswer } from '../../contract/protocol/agent-protocol.ts'
import type { Database } from '../../database/database.ts'
import { lastRecordedSlots, readDefinitions } from '../checks/queries/placement-changes.ts'
import type { HandOver, AssignedMonitor } from './handover.ts'
import type { Cipher } from '../secrets/cipher.ts'

/** All of an answer but its `changes` and the instant when it is sent. */
export type AnswerHead = Omit<SyncAnswer, 'changes' | 'sentAt'>

/** The changes of an answer before monitors are read. */
export interface AnswerChanges extends HandOver {
  whole: boolean
  variables: NonNullable<SyncAnswer['changes']>['variables']
}

export interface AnswerParts {
  database: Database
  cipher: Cipher
  locationId: string
  now: () => number
}

const MONITORS_AT_ONCE = 250

/** The answer of a sync that has no news of monitors. */
export function shortAnswer(head: AnswerHead, sentAt: number): string {
  return JSON.stringify({ ...head, changes: null, sentAt })
}

/** Writes an answer with changes, in parts. Throws DecryptionError when a definition cannot be decrypted. */
export async function* writeAnswer(
  { database, cipher, locationId, now }: AnswerParts,
  head: AnswerHead,
  { whole, set, drop, variables }: AnswerChanges,
): AsyncGenerator<string> {
  const changes = JSON.stringify({ whole, drop, variables })
  yield `${JSON.stringify(head).slice(0, -1)},"changes":${changes.slice(0, -1)},"set":[`
  let separator = ''
  for (let start = 0; start < set.length; start += MONITORS_AT_ONCE) {
    const some = set.slice(start, start + MONITORS_AT_ONCE)
    const ids = some.map(({ placement }) => placement.monitorId)
    const definitions = await readDefinitions(database, ids)
    const recorded = await lastRecordedSlots(database, locationId, ids)
    const texts: string[] = []
    for (const assigned of some) {
      const { monitorId } = assigned.placement
      const encrypted = definitions.get(monitorId)
      // It was just deleted: the next answer drops it.
      if (encrypted === undefined) continue
      const fromMs = firstSlotFrom(assigned, recorded.get(monitorId))
      // The definition is sent as stored, without parsing it.
      texts.push(assignedText(cipher.decrypt(encrypted), assigned, fromMs))
    }
    if (texts.length > 0) {
      yield separator + texts.join(',')
      separator = ','
    }
  }
  yield `]},"sentAt":${now()}}`
}

/** Recorded slots are done, by any agent; slots before the placement are not assigned. */
function firstSlotFrom(
  { placement, fromMs }: AssignedMonitor,
  recorded: number | undefined,
): number {
  const unrecorded = recorded === undefined ? -Infinity : recorded + 1
  return Math.max(placement.fromMs, fromMs, unrecorded, 0)
}

function assignedText(
  monitor: string,
  { placement, untilMs }: AssignedMonitor,
  fromMs: number,
): string {
  const { everyMs, offsetMs } = placement
  const slots = `{"everyMs":${everyMs},"offsetMs":${offsetMs}}`
  const until = untilMs === undefined ? '' : `,"until":${untilMs}`
  return `{"monitor":${monitor},"slots":${slots},"from":${fromMs}${until}}`
}

/** The parts as one body. */
export async function bodyOf(
  parts: AsyncIterable<string>,
  packed: boolean,
): Promise<Buffer<ArrayBuffer>> {
  const source = Readable.from(parts)
  if (!packed) return buffer(source)
  // A low level: the text is repetitive, and speed matters more than the last percents.
  const gzip = createGzip({ level: 2 })
  source.on('error', (error) => gzip.destroy(error))
  return buffer(source.pipe(gzip))
}
