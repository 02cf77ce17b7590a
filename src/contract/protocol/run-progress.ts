// How far runs of code are: what their agent says while they run, and what whoever follows one is shown.
import * as z from 'zod'

/** How much is said at a time; units stand last in the names. */
export const PROGRESS_BOUNDS = {
  phaseCharactersMax: 32,
  lineCharactersMax: 500,
  countMax: 1_000_000_000,
  /** Runs in one call. */
  runsMax: 32,
  /** Scheduled slots under way in one sync. */
  slotsMax: 200,
  /** A call with all of them. */
  callBytesMax: 128 * 1024,
} as const

const count = z.int().min(0).max(PROGRESS_BOUNDS.countMax)

const guid = z.guid().meta({ format: 'uuid' })
const instant = z.number().min(0).max(8.64e15)
const words = {
  /** Such as `install`, `test`, `upload`. */
  phase: z.string().max(PROGRESS_BOUNDS.phaseCharactersMax),
  done: count.optional(),
  total: count.optional(),
  /** The newest line of it, without secrets. */
  line: z.string().max(PROGRESS_BOUNDS.lineCharactersMax).optional(),
}

/** What an agent says of a run. */
export const ProgressWire = z.object({ run: guid, ...words })
export type ProgressWire = z.infer<typeof ProgressWire>

/** A slot of the timetable whose code an agent runs at present; without `phase` it has said nothing yet. */
export const SlotUnderWay = z.object({
  monitorId: guid,
  slot: instant,
  startedAt: instant,
  ...words,
  phase: words.phase.optional(),
})
export type SlotUnderWay = z.infer<typeof SlotUnderWay>

/** The newest of it, as the public API shows it. */
export const ShownProgress = z
  .object({
    phase: z.string().meta({ example: 'test' }),
    done: z.int().nullable().meta({ description: 'Of `total`' }),
    total: z.int().nullable(),
    line: z.string().nullable().meta({ description: 'The newest line, without secrets' }),
    at: z.iso.datetime().meta({ description: 'When its agent said so', format: 'date-time' }),
  })
  .meta({ id: 'CheckRunProgress' })
export type ShownProgress = z.infer<typeof ShownProgress>

/** A scheduled run that is under way, as the public API shows it. */
export const ShownUnderWay = z
  .object({
    location: z.string().meta({ description: 'The location’s slug name' }),
    agentId: guid,
    slot: z.iso.datetime().meta({ format: 'date-time' }),
    startedAt: z.iso.datetime().meta({ format: 'date-time' }),
    progress: ShownProgress.nullable().meta({ description: 'Null: it has said nothing yet' }),
  })
  .meta({ id: 'CheckUnderWay' })
