// A result as the public API shows it, and the present state of a monitor.
import { createHash } from 'node:crypto'
import * as z from 'zod'
import { CHECK_TYPES } from '../../monitors/definitions.ts'
import {
  MISSED_REASONS,
  OWN_VERDICTS,
  TARGET_VERDICTS,
  type Verdict,
  VERDICTS,
} from '../../contract/result.ts'
import { ArtifactView } from '../../contract/api/run.ts'

const guid = z.guid().meta({ format: 'uuid' })
const dateTime = z.string().meta({ format: 'date-time' })
const loose = z.record(z.string(), z.unknown())

/**
 * The id of a slot's result, a UUID of version 8 (RFC 9562): 48 bits of the slot's milliseconds, then a
 * hash of the location and the monitor. It is computed from the three and needs no storage.
 */
export function resultId(of: { locationId: string; monitorId: string; slotMs: number }): string {
  const time = of.slotMs.toString(16).padStart(12, '0').slice(-12)
  const hash = createHash('sha256').update(`${of.locationId} ${of.monitorId}`).digest('hex')
  const variant = ((Number.parseInt(hash.slice(3, 4), 16) & 0x3) | 0x8).toString(16)
  const tail = `8${hash.slice(0, 3)}-${variant}${hash.slice(4, 7)}-${hash.slice(7, 19)}`
  return `${time.slice(0, 8)}-${time.slice(8)}-${tail}`
}

/** The slot that a result's id carries, milliseconds. */
export function slotOfResultId(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)
}

/** Whether the verdict says that the target failed. */
export function hasFailures(verdict: Verdict): boolean {
  return verdict === 'failed'
}

/** Whether the verdict says nothing about the target, for a reason on our side. */
export function hasErrors(verdict: Verdict): boolean {
  return verdict === 'errored' || verdict === 'cancelled' || verdict === 'missed'
}

const common = {
  id: guid.meta({ description: 'Of this slot’s result; carries the slot' }),
  checkId: guid,
  name: z.string().meta({ description: 'Name of the check' }),
  resultType: z.literal('FINAL').meta({ description: 'Tries have no results of their own' }),
  location: z.string().meta({ description: 'Slug of the private location' }),
  runLocation: z.string().meta({ description: 'The same as `location`' }),
  slot: dateTime.meta({ description: 'When it was due' }),
  startedAt: dateTime,
  clockUncertaintyMs: z
    .number()
    .nullable()
    .meta({ description: 'How far `startedAt` may be off, at most; null when unknown' }),
  stoppedAt: dateTime,
  responseTime: z
    .int()
    .meta({ description: 'Whole milliseconds; those of the whole run when there was no answer' }),
  verdict: z.enum(VERDICTS),
  missedReason: z.enum(MISSED_REASONS).nullable(),
  needed: z
    .string()
    .nullable()
    .meta({ description: 'With `no-capable-agent`: what the monitor requires of an agent' }),
  hasFailures: z.boolean(),
  hasErrors: z.boolean(),
  isDegraded: z.boolean(),
  isCancelled: z.boolean(),
  attempts: z.int().meta({ description: 'Attempts; 0 when there was none' }),
  failureCode: z.string().nullable().meta({ description: 'Code of the first failure' }),
  runBy: guid.nullable().meta({ description: 'Id of the agent; null without a report' }),
  receivedAt: dateTime,
  created_at: dateTime.meta({ description: 'The same as `receivedAt`' }),
  sequenceId: z.null().meta({ description: 'Tries are in `attemptResults`' }),
  traceId: z.null().meta({ description: 'Results have no traces' }),
}

/** A result as it is listed. */
export const CheckResult = z.object(common).meta({ id: 'CheckResult' })
export type CheckResult = z.infer<typeof CheckResult>

/** The fields of a result that were asked for. */
export const CheckResultFields = CheckResult.partial().meta({ id: 'CheckResultFields' })

/** A result with all its stored details. */
export const CheckResultDetail = z
  .object({
    ...common,
    failures: z.array(
      z.object({ code: z.string(), message: z.string(), details: loose.optional() }),
    ),
    observed: loose.nullable().meta({
      description: 'Observation of the last try; stored for every result that did not pass',
    }),
    attemptResults: z.array(loose).meta({ description: 'Each try, where it is stored' }),
    artifacts: z.array(ArtifactView),
  })
  .meta({ id: 'CheckResultDetail' })

const LocationStatus = z.object({
  location: z.string(),
  unattended: z.boolean().meta({
    description:
      'It has had no agent for long; its verdict counts only where no other location has one',
  }),
  verdict: z
    .enum(TARGET_VERDICTS)
    .nullable()
    .meta({ description: 'The newest about the target; null before there is one' }),
  lastSlot: dateTime.nullable().meta({ description: 'The slot of that verdict' }),
  since: dateTime.nullable().meta({
    description: 'The first slot that has had this verdict since, slots about us left aside',
  }),
  lastCheckResultId: guid.nullable(),
  silence: z
    .object({
      verdict: z.enum(OWN_VERDICTS),
      missedReason: z.enum(MISSED_REASONS).nullable(),
      needed: z.string().nullable().meta({ description: 'As in results' }),
      failureCode: z.string().nullable(),
      lastSlot: dateTime.meta({ description: 'The newest slot' }),
      since: dateTime.meta({ description: 'The first slot after the newest verdict' }),
      lastCheckResultId: guid,
    })
    .nullable()
    .meta({
      description:
        'Why slots after the newest verdict say nothing about the target; null when the newest slot does',
    }),
})

/** The present state of a monitor. */
export const CheckStatus = z
  .object({
    checkId: guid,
    name: z.string(),
    checkType: z.enum(CHECK_TYPES),
    activated: z.boolean(),
    verdict: z.enum(VERDICTS).nullable().meta({
      description:
        'The worst verdict about the target of any location; where none has one, a verdict about us',
    }),
    hasFailures: z.boolean().meta({ description: 'The target failed from some location' }),
    hasErrors: z.boolean().meta({
      description:
        'The newest slot of a location says nothing about the target, or no agent runs the check',
    }),
    isDegraded: z.boolean(),
    locations: z.array(LocationStatus),
    warning: z.string().optional().meta({
      description: 'Why no agent runs the check although it is activated; absent otherwise',
    }),
  })
  .meta({ id: 'CheckStatus' })
export type CheckStatus = z.infer<typeof CheckStatus>

/** Verdicts by weight: about the target from the worst on, then about us. */
const WEIGHT: readonly Verdict[] = [
  'failed',
  'degraded',
  'passed',
  'errored',
  'missed',
  'cancelled',
]

/** One verdict for all locations: the heaviest one. */
export function overallVerdict(verdicts: readonly (Verdict | null)[]): Verdict | null {
  return WEIGHT.find((one) => verdicts.includes(one)) ?? null
}
