// Applying a file of monitors to a platform: one call sends the file's monitors, groups and variables; the
// answer is the plan of the changes.
import * as z from 'zod'
import { BundleHash } from './code-bundle.ts'
import { Variable } from '../monitor.ts'
import { text } from '../schema/text.ts'
import { LIMITS } from '../versions.ts'

/** Bounds of one call; names end with their unit. */
export const APPLY_BOUNDS = {
  /** The body, compressed and uncompressed. */
  bodyBytesMax: 32 * 1024 * 1024,
  keyCharactersMax: 255,
  groupsMax: 10_000,
  locationsMax: 100,
  /** Problems reported of one file, at most. */
  problemsMax: 1_000,
} as const

/** Kinds of resources in a file, as a plan names them. */
const APPLY_KINDS = ['group', 'monitor', 'variable'] as const
export type ApplyKind = (typeof APPLY_KINDS)[number]

const APPLY_ACTIONS = ['create', 'update', 'delete', 'unchanged'] as const

const key = z.string().min(1).max(APPLY_BOUNDS.keyCharactersMax)

/** The wire form, without `id`; checked by the schema of its type. */
const definition = z.record(z.string(), z.unknown())

/** A group of a file; its key is what the file's monitors name it by. */
const AppliedGroup = z.strictObject({ key, definition })

/** A monitor of a file; its key is its id there and stays its name across applies. */
export const AppliedMonitor = z.strictObject({
  key,
  /** The key of a group in the same call. Without it the definition's own `groupId` holds. */
  group: key.optional(),
  definition,
})
export type AppliedMonitor = z.infer<typeof AppliedMonitor>

/** A file of monitors to apply. */
export const ApplyRequest = z
  .strictObject({
    /** Identity of the file, by which resources removed from it are found. */
    name: text(APPLY_BOUNDS.keyCharactersMax),
    /** Deletes resources applied under this name that the file no longer contains. */
    prune: z.boolean().default(false),
    /** Answers with the plan and changes nothing. */
    dryRun: z.boolean().default(false),
    /** Slug names of private locations, for monitors that name no location themselves or by their group. */
    locations: z.array(z.string().min(1)).max(APPLY_BOUNDS.locationsMax).default([]),
    groups: z.array(AppliedGroup).max(APPLY_BOUNDS.groupsMax).default([]),
    monitors: z.array(AppliedMonitor).max(LIMITS.monitorsMax),
    /** In a dry run: hashes of code bundles that will be uploaded. */
    bundles: z.array(BundleHash).max(LIMITS.codeBundlesMax).optional(),
    /** For all monitors of the account. */
    variables: z.array(Variable).max(LIMITS.variablesMax).default([]),
  })
  .meta({
    id: 'ApplyRequest',
    example: {
      name: 'monitors.yaml',
      locations: ['data-center'],
      monitors: [
        {
          key: 'shop',
          definition: {
            name: 'Shop',
            checkType: 'URL',
            request: { url: 'https://shop.example.com/' },
          },
        },
      ],
    },
  })
export type ApplyRequest = z.infer<typeof ApplyRequest>

/** One line of a plan. */
export const PlannedChange = z.object({
  action: z.enum(APPLY_ACTIONS),
  kind: z.enum(APPLY_KINDS),
  /** The key in the file; of a variable its name. */
  key: z.string(),
  /** The platform's id; left out for resources to be created, and for variables. */
  id: z.union([z.string(), z.number()]).optional(),
  name: z.string(),
  /** Of an update the places that differ, like `request.url`. Never values: they may be secret. */
  changes: z.array(z.string()),
})
export type PlannedChange = z.infer<typeof PlannedChange>

/** A problem of the file that only the platform can detect. */
export const ApplyProblem = z.object({
  kind: z.enum(APPLY_KINDS),
  key: z.string(),
  /** Inside the definition, from its root. */
  path: z.array(z.union([z.string(), z.number()])),
  /** The problem and the accepted values, without secret values. */
  message: z.string(),
})
export type ApplyProblem = z.infer<typeof ApplyProblem>

/** Outcome of a call, which is applied completely or not at all. */
export const ApplyAnswer = z
  .object({
    /** Groups, then monitors, then variables, each in the order of the file; deletions come last. */
    plan: z.array(PlannedChange),
    /** True when the plan was carried out: no dry run, no problem. */
    applied: z.boolean(),
    /** Not empty: nothing was changed, and the plan is empty. At most `problemsMax`. */
    problems: z.array(ApplyProblem),
  })
  .meta({ id: 'ApplyAnswer' })
export type ApplyAnswer = z.infer<typeof ApplyAnswer>
