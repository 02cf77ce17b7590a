// Private locations in the public API: their agents, their keys, and how many runs wait.
import * as z from 'zod'
import { API_BOUNDS } from '../../contract/api/bounds.ts'
import { guid, ignored, READ_ONLY, SECRET_MASK, timestamps } from '../../contract/api/resource.ts'
import { text } from '../../contract/schema/text.ts'

const SLUG = /^[A-Za-z0-9-]{1,30}$/
/** Names of public regions, which a private location must not have. */
const REGION_LIKE =
  /^(?:us(?:-gov)?|eu|ap|sa|af|me|ca|cn|il|mx)-(?:central|(?:north|south)?(?:east|west)?)-\d/i

/** A location's name in definitions; it never changes. */
const SlugName = z
  .string()
  .regex(SLUG, { error: 'must be 1 to 30 letters, digits and dashes', abort: true })
  .refine((slug) => !REGION_LIKE.test(slug), {
    error: 'must not begin like the name of a public region, such as eu-west-1',
  })

const proxyUrl = z
  .string()
  .max(2048)
  .refine(
    (value) => /^https?:\/\/[^\s"'<>]+$/i.test(value) && URL.canParse(value),
    'must be an http or https URL, like http://user:password@proxy.internal:3128',
  )

const changeable = {
  name: text(API_BOUNDS.nameCharactersMax),
  icon: z
    .string()
    .regex(/^[a-z][a-z0-9-]{0,63}$/, 'must be the name of an Octicon, like location')
    .default('location'),
  proxyUrl: proxyUrl
    .nullable()
    .default(null)
    .meta({
      description: `Checks connect through it. Its password reads as \`${SECRET_MASK}\`.`,
    }),
}

/** What makes a location. */
export const PrivateLocationInput = z
  .strictObject({ ...changeable, slugName: SlugName, ...READ_ONLY })
  .meta({
    id: 'PrivateLocationInput',
    example: { name: 'Data center', slugName: 'data-center' },
  })

/** What replaces one. The slug name may be carried along, as it is. */
export const PrivateLocationChange = z
  .strictObject({
    ...changeable,
    slugName: z
      .string()
      .optional()
      .meta({ description: 'Must be the present name: it never changes' }),
    ...READ_ONLY,
    ...ignored('keys', 'lastSeen', 'agentCount', 'agentStatus', 'minAgentVersion', 'runningAgents'),
  })
  .meta({ id: 'PrivateLocationChange', example: { name: 'Data center, east' } })

/** A key as it is shown after it was made. */
const LocationKey = z
  .object({
    id: guid(),
    maskedKey: z.string().meta({ example: '...6a1e' }),
    created_at: timestamps.created_at,
  })
  .meta({ id: 'PrivateLocationKey' })

/** A key as it is shown once. */
export const NewLocationKey = z
  .object({
    ...LocationKey.shape,
    rawKey: z.string().meta({ description: 'For API_KEY of agents; shown only now' }),
  })
  .meta({ id: 'NewPrivateLocationKey' })

const seen = timestamps.created_at.meta({ description: 'When it called last' })

/** Agents of one version that report from a location. */
export const RunningAgents = z
  .object({
    version: z.string().meta({ example: '8.4.0' }),
    isOutdated: z.boolean().meta({ description: 'It is older than the platform' }),
    count: z.int(),
    agents: z.array(z.object({ id: guid(), lastSeenAt: seen })),
  })
  .meta({ id: 'RunningAgents' })
export type RunningAgents = z.infer<typeof RunningAgents>

/** A location as it is read. */
export const PrivateLocation = z
  .object({
    id: guid(),
    name: z.string(),
    slugName: z.string(),
    icon: z.string(),
    proxyUrl: z.string().nullable(),
    keys: z.array(LocationKey),
    lastSeen: seen.nullable(),
    agentCount: z.int().meta({ description: 'Agents that report now' }),
    agentStatus: z.enum(['never-reported', 'reporting', 'stopped-reporting']),
    minAgentVersion: z
      .string()
      .nullable()
      .optional()
      .meta({ description: 'The oldest version among agents that report now' }),
    runningAgents: z.array(RunningAgents).optional(),
    ...timestamps,
  })
  .meta({ id: 'PrivateLocation' })
export type PrivateLocation = z.infer<typeof PrivateLocation>

/** How much waited, at the same place of each list. */
export const LocationMetrics = z
  .object({
    timestamps: z.array(z.string().meta({ format: 'date-time' })),
    queueSize: z.array(z.int()).meta({ description: 'Runs that waited for a place' }),
    oldestScheduledCheckRun: z
      .array(z.number())
      .meta({ description: 'Seconds for which the oldest of them had been due; 0: none waited' }),
  })
  .meta({ id: 'PrivateLocationMetrics' })

/** A public region; a platform of one's own has none. */
export const PublicRegion = z
  .object({ region: z.string(), name: z.string() })
  .meta({ id: 'PublicRegion' })
