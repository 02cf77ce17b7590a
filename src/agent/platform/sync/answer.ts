// Reads the platform's answer to a sync, as a whole or not at all: an answer that is invalid in one place may be
// invalid in others.
import * as z from 'zod'
import { SyncAnswer } from '../../../contract/protocol/agent-protocol.ts'
import { objections } from '../../../contract/schema/explain.ts'
import { Monitor, Variable } from '../../../contract/monitor.ts'
import { EVERY_MS_MIN } from '../../../contract/timetable.ts'
import type { Assignment } from '../../source.ts'

/** An answer, but for the definitions in it, which are read one by one. */
const Envelope = SyncAnswer.extend({
  changes: z
    .object({
      whole: z.boolean(),
      set: z.array(z.unknown()),
      drop: z.array(z.object({ monitorId: z.string(), until: z.number() })),
      // Fields that this version does not know are left out, not refused.
      variables: z.array(z.object(Variable.shape)),
    })
    .nullable(),
  runs: z.array(z.object({ run: z.string(), monitor: z.unknown() })),
})
export type ReadAnswer = z.infer<typeof Envelope>
export type ReadChanges = NonNullable<ReadAnswer['changes']>

/** The answer is not what the protocol says; the message says where. */
export class MalformedAnswerError extends Error {}

/** Reads the answer; throws MalformedAnswerError. */
export function readSyncAnswer(body: Buffer): ReadAnswer {
  return answerOf(jsonOf(body))
}

/** Reads an answer that is parsed already; throws MalformedAnswerError. */
export function answerOf(value: unknown): ReadAnswer {
  const parsed = Envelope.safeParse(value)
  if (parsed.success) return parsed.data
  const [first] = objections(parsed.error, Envelope, undefined)
  throw new MalformedAnswerError(`${first?.path.join('.') ?? ''}: ${first?.message ?? 'no object'}`)
}

function jsonOf(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString()) as unknown
  } catch {
    throw new MalformedAnswerError('it is not JSON')
  }
}

/** One entry of `changes.set`, its definition unread. */
export type ReadEntry = Assignment & { id: string; definition: Record<string, unknown> }

/** Reads an entry but for its definition; throws MalformedAnswerError. */
export function readEntry(entry: unknown): ReadEntry {
  if (!isRecord(entry) || !isRecord(entry['slots'])) throw notAnEntry()
  const { slots, from, until, monitor } = entry
  const { everyMs, offsetMs } = slots
  const isTimed =
    isNumber(everyMs) && everyMs >= EVERY_MS_MIN && isNumber(offsetMs) && isNumber(from)
  if (!isTimed || (until !== undefined && !isNumber(until))) throw notAnEntry()
  const definition = readDefinition(monitor)
  const assigned = { slots: { everyMs, offsetMs }, from, id: definition.id, definition }
  return until === undefined ? assigned : { ...assigned, until }
}

/** A definition with at least an id; throws MalformedAnswerError. */
export function readDefinition(monitor: unknown): Record<string, unknown> & { id: string } {
  if (!isRecord(monitor) || typeof monitor['id'] !== 'string' || monitor['id'] === '') {
    throw notAnEntry()
  }
  return monitor as Record<string, unknown> & { id: string }
}

/**
 * The monitor of a definition. One whose common part this version cannot read becomes a monitor all the same,
 * whose runs then end in SETTINGS_INVALID or CHECK_TYPE_UNSUPPORTED: no result at all would be worse.
 */
export function monitorOf(definition: Record<string, unknown> & { id: string }): Monitor {
  const parsed = Monitor.safeParse(definition)
  if (parsed.success) return parsed.data
  const { id, name, checkType } = definition
  return {
    ...definition,
    name: typeof name === 'string' ? name : id,
    checkType: typeof checkType === 'string' ? checkType : 'unknown',
    activated: definition['activated'] !== false,
  } as Monitor
}

function notAnEntry(): MalformedAnswerError {
  return new MalformedAnswerError('changes.set holds something that is no assigned monitor')
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value)
}
