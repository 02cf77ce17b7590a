// Runs on demand and the files of results in the public API.
import * as z from 'zod'
import { guid } from './resource.ts'
import { PROTOCOL_BOUNDS } from '../protocol/agent-protocol.ts'
import { MISSED_REASONS, VERDICTS } from '../result.ts'
import { ShownProgress } from '../protocol/run-progress.ts'

const instant = (description: string) =>
  z.iso.datetime().meta({ description, format: 'date-time', example: '2026-02-25T10:00:00.000Z' })

/** State of a run; `sent`: an agent has received it and has not started it. */
export const RUN_STATES = ['queued', 'sent', 'running', 'finished'] as const
export type RunState = (typeof RUN_STATES)[number]

/** Bounds of runs on demand; names end with their unit. */
export const RUN_BOUNDS = {
  /** Runs that no agent accepts for this long are missed. */
  takenWithinMs: 360_000,
  /** Time after which an accepted run without reports is abandoned. */
  openMsMax: 3 * 3_600_000,
  /** Longest hold of a read that waits for a change. */
  waitMsMax: 25_000,
  locationsMax: 100,
  /** A file not received this long after its result counts as missing. */
  artifactAwaitedMs: 86_400_000,
} as const

/** Why the platform did not store a file. */
const ARTIFACT_REFUSALS = ['TOO_LARGE'] as const
export type ArtifactRefusal = (typeof ARTIFACT_REFUSALS)[number]

/** A file of a result: stored, refused, awaited or abandoned. */
export const ArtifactView = z
  .object({
    id: guid()
      .nullable()
      .meta({ description: 'Id for the download; null unless its state is `stored`' }),
    name: z.string(),
    state: z.enum(['stored', 'refused', 'awaited', 'missing']).meta({
      description:
        '`awaited`: named in the result and not received yet; `missing`: not received within a day, or no longer retained. A later upload is still stored',
    }),
    refusal: z.enum(ARTIFACT_REFUSALS).nullable().meta({ description: 'Why it was refused' }),
    bytes: z.int().nullable(),
    sha256: z.string().nullable(),
    contentType: z.string(),
  })
  .meta({ id: 'Artifact' })
export type ArtifactView = z.infer<typeof ArtifactView>

const summary = {
  id: guid(),
  checkId: guid(),
  checkName: z.string(),
  checkType: z.string(),
  location: z.string().meta({ description: 'Slug name of the private location' }),
  state: z.enum(RUN_STATES),
  verdict: z.enum(VERDICTS).nullable().meta({ description: 'Null until it is finished' }),
  missedReason: z.enum(MISSED_REASONS).nullable(),
  needed: z.string().nullable().meta({
    description: 'With the reason `no-capable-agent`: what an agent must be able to do',
  }),
  cancelRequested: z.boolean(),
  askedBy: z.string().meta({ description: 'Name of the key that asked for it' }),
  createdAt: instant('When it was asked for'),
  finishedAt: instant('When its result was received').nullable(),
}

/** A run without its observations. */
export const Run = z.object(summary).meta({ id: 'CheckRun' })
export type Run = z.infer<typeof Run>

const Failure = z.object({
  code: z.string().meta({ example: 'CONNECT_REFUSED' }),
  message: z.string(),
  details: z.record(z.string(), z.unknown()).optional(),
})

/** A run with its result and files. */
export const RunDetail = z
  .object({
    ...summary,
    result: z
      .object({
        startedAt: instant('By the platform’s clock'),
        durationMs: z.number(),
        responseTimeMs: z.number().nullable(),
        attempts: z.int(),
        failures: z.array(Failure),
        observed: z.record(z.string(), z.unknown()).nullable(),
      })
      .nullable()
      .meta({ description: 'Null until an agent has reported' }),
    artifacts: z.array(ArtifactView),
    progress: ShownProgress.nullable().meta({
      description: 'Null before the first report of its agent, and when it is finished',
    }),
  })
  .meta({ id: 'CheckRunDetail' })
export type RunDetail = z.infer<typeof RunDetail>

/** Body that requests a run of a monitor. */
export const RunRequest = z
  .strictObject({
    locations: z
      .array(z.string().min(1).max(255))
      .min(1)
      .max(RUN_BOUNDS.locationsMax)
      .optional()
      .meta({
        description: 'Slug names of private locations of the check; all of them by default',
      }),
  })
  .meta({ id: 'CheckRunRequest', example: { locations: ['data-center'] } })

/** The requested runs, one for each location. */
export const RunsAsked = z.object({ runs: z.array(Run) }).meta({
  id: 'CheckRunsAsked',
  description: `At most ${PROTOCOL_BOUNDS.onDemandRunsMax} runs of a location may be open`,
})
