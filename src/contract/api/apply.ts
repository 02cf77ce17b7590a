// What it takes to bring a file of monitors onto a platform: the file's monitors, groups and variables go
// there in one call, the plan of what that changes comes back.
import * as z from 'zod'
import { BundleHash } from './code-bundle.ts'
import { Variable } from '../monitor.ts'
import { text } from '../schema/text.ts'
import { LIMITS } from '../versions.ts'

/** How far one call may go; units stand last in the names. */
export const APPLY_BOUNDS = {
  /** The body, as it is sent and unpacked. */
  bodyBytesMax: 32 * 1024 * 1024,
  keyCharactersMax: 255,
  groupsMax: 10_000,
  locationsMax: 100,
  /** Problems told of one file; there may be more. */
  problemsMax: 1_000,
} as const

/** What a file can hold, as a plan names it. */
export const APPLY_KINDS = ['group', 'monitor', 'variable'] as const
export type ApplyKind = (typeof APPLY_KINDS)[number]

export const APPLY_ACTIONS = ['create', 'update', 'delete', 'unchanged'] as const
export type ApplyAction = (typeof APPLY_ACTIONS)[number]

const key = z.string().min(1).max(APPLY_BOUNDS.keyCharactersMax)

/** The wire form, without `id`; checked by the schema of its type. */
const definition = z.record(z.string(), z.unknown())

/** A group of a file; its key is what the file's monitors name it by. */
export const AppliedGroup = z.strictObject({ key, definition })
export type AppliedGroup = z.infer<typeof AppliedGroup>

/** A monitor of a file; its key is its id there and stays its name across applies. */
export const AppliedMonitor = z.strictObject({
  key,
  /** The key of a group in the same call. Without it the definition's own `groupId` holds. */
  group: key.optional(),
  definition,
})
export type AppliedMonitor = z.infer<typeof AppliedMonitor>

/** A file of monitors, to be made true on the platform. */
export const ApplyRequest = z
  .strictObject({
    /** What the file is known by: what it held before and holds no more is found by it. */
    name: text(APPLY_BOUNDS.keyCharactersMax),
    /** Deletes what was applied under this name and is in the file no more. */
    prune: z.boolean().default(false),
    /** Answers with the plan and changes nothing. */
    dryRun: z.boolean().default(false),
    /** Slug names of private locations, for monitors that name no location themselves or by their group. */
    locations: z.array(z.string().min(1)).max(APPLY_BOUNDS.locationsMax).default([]),
    groups: z.array(AppliedGroup).max(APPLY_BOUNDS.groupsMax).default([]),
    monitors: z.array(AppliedMonitor).max(LIMITS.monitorsMax),
    /** In a dry run: code bundles that are not there yet and will be, by their hashes. */
    bundles: z.array(BundleHash).max(LIMITS.codeBundlesMax).optional(),
    /** For all monitors of the account. */
    variables: z.array(Variable).max(LIMITS.variablesMax).default([]),
  })
  .meta({ id: 'ApplyRequest' })
export type ApplyRequest = z.infer<typeof ApplyRequest>

/** One line of a plan. */
export const PlannedChange = z.object({
  action: z.enum(APPLY_ACTIONS),
  kind: z.enum(APPLY_KINDS),
  /** The key in the file; of a variable its name. */
  key: z.string(),
  /** The platform's own id; absent of what is still to be created, and of variables. */
  id: z.union([z.string(), z.number()]).optional(),
  name: z.string(),
  /** Of an update the places that differ, like `request.url`. Never values: they may be secret. */
  changes: z.array(z.string()),
  /** Why the platform does not watch a monitor. */
  warning: z.string().optional(),
})
export type PlannedChange = z.infer<typeof PlannedChange>

/** What is wrong with a part of the file that only the platform can know. */
export const ApplyProblem = z.object({
  kind: z.enum(APPLY_KINDS),
  key: z.string(),
  /** Inside the definition, from its root. */
  path: z.array(z.union([z.string(), z.number()])),
  /** What is wrong and what would be right, without a secret value. */
  message: z.string(),
})
export type ApplyProblem = z.infer<typeof ApplyProblem>

/** What a call comes to: all of it is done, or none. */
export const ApplyAnswer = z
  .object({
    /** Groups, then monitors, then variables, each in the order of the file; what is deleted comes last. */
    plan: z.array(PlannedChange),
    /** True when the plan was carried out: no dry run, no problem. */
    applied: z.boolean(),
    /** Not empty: nothing was changed, and the plan is empty. At most `problemsMax`. */
    problems: z.array(ApplyProblem),
  })
  .meta({ id: 'ApplyAnswer' })
export type ApplyAnswer = z.infer<typeof ApplyAnswer>
