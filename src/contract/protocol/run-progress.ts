// Progress of scripted runs: as reported by their agent, and as the public API shows it.
import * as z from 'zod'

/** Bounds of progress reports; names end with their unit. */
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

export const guid = z.guid().meta({ format: 'uuid' })
export const instant = z.number().min(0).max(8.64e15)

const progressFields = {
  /** Such as `install`, `test`, `upload`. */
  phase: z.string().max(PROGRESS_BOUNDS.phaseCharactersMax),
  done: count.optional(),
  total: count.optional(),
  /** The newest line of it, without secrets. */
  line: z.string().max(PROGRESS_BOUNDS.lineCharactersMax).optional(),
}

/** Progress of a run as reported by its agent. */
export const ProgressWire = z.object({ run: guid, ...progressFields })
export type ProgressWire = z.infer<typeof ProgressWire>

/** A scheduled slot whose code an agent is running; without `phase` there is no progress yet. */
export const SlotUnderWay = z.object({
  monitorId: guid,
  slot: instant,
  startedAt: instant,
  ...progressFields,
  phase: progressFields.phase.optional(),
})
export type SlotUnderWay = z.infer<typeof SlotUnderWay>

/** Latest progress, as the public API shows it. */
export const ShownProgress = z
  .object({
    phase: z.string().meta({ example: 'test' }),
    done: z.int().nullable().meta({ description: 'Of `total`' }),
    total: z.int().nullable(),
    line: z.string().nullable().meta({ description: 'The newest line, without secrets' }),
    at: z.iso.datetime().meta({ description: 'When its agent reported it', format: 'date-time' }),
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
    progress: ShownProgress.nullable().meta({ description: 'Null before its first report' }),
  })
  .meta({ id: 'CheckUnderWay' })
