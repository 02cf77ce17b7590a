// How far a run on demand is: what its agent says while it runs, and what whoever follows it is shown.
import * as z from 'zod'

/** How much is said at a time; units stand last in the names. */
export const PROGRESS_BOUNDS = {
  phaseCharactersMax: 32,
  lineCharactersMax: 500,
  countMax: 1_000_000_000,
  /** Runs in one call. */
  runsMax: 32,
  /** A call with all of them. */
  callBytesMax: 128 * 1024,
} as const

const count = z.int().min(0).max(PROGRESS_BOUNDS.countMax)

/** What an agent says of a run. */
export const ProgressWire = z.object({
  run: z.guid().meta({ format: 'uuid' }),
  /** Such as `install`, `test`, `upload`. */
  phase: z.string().max(PROGRESS_BOUNDS.phaseCharactersMax),
  done: count.optional(),
  total: count.optional(),
  /** The newest line of it, without secrets. */
  line: z.string().max(PROGRESS_BOUNDS.lineCharactersMax).optional(),
})
export type ProgressWire = z.infer<typeof ProgressWire>

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
