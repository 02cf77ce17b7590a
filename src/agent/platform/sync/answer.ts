// Reads the platform's answer to a sync, as a whole or not at all: an answer that is invalid in one place may be
// invalid in others.
import * as z from 'zod'
import { jsonOf } from '../../../contract/exact-json.ts'
import { AssignedMonitor, SyncAnswer } from '../../../contract/protocol/agent-protocol.ts'
import { objections } from '../../../contract/schema/explain.ts'
import { Monitor, Variable } from '../../../contract/monitor.ts'
import { EVERY_MS_MIN } from '../../../contract/timetable.ts'

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
  const value = jsonOf(body.toString())
  if (value === undefined) throw new MalformedAnswerError('it is not JSON')
  return answerOf(value)
}

/** Reads an answer that is parsed already; throws MalformedAnswerError. */
export function answerOf(value: unknown): ReadAnswer {
  return readAs(Envelope, value)
}

function readAs<T extends z.ZodType>(schema: T, value: unknown): z.infer<T> {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const [first] = objections(parsed.error, schema, undefined)
  throw new MalformedAnswerError(`${first?.path.join('.') ?? ''}: ${first?.message ?? 'no object'}`)
}

/** A definition with at least an id. */
const Definition = z.looseObject({ id: z.string().min(1) })
export type ReadDefinition = z.infer<typeof Definition>

/** One entry of `changes.set`, its definition unread. */
const Entry = AssignedMonitor.extend({
  monitor: Definition,
  slots: z.object({ everyMs: z.number().min(EVERY_MS_MIN), offsetMs: z.number() }),
})

/** Reads an entry but for its definition; throws MalformedAnswerError. */
export function readEntry(entry: unknown): z.infer<typeof Entry> {
  return readAs(Entry, entry)
}

/** Throws MalformedAnswerError. */
export function readDefinition(monitor: unknown): ReadDefinition {
  return readAs(Definition, monitor)
}

/**
 * The monitor of a definition. One whose common part this version cannot read becomes a monitor all the same,
 * whose runs then end in SETTINGS_INVALID or CHECK_TYPE_UNSUPPORTED: no result at all would be worse.
 */
export function monitorOf(definition: ReadDefinition): Monitor {
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
