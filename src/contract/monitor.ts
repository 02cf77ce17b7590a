// Common fields of all monitors in the public wire form. The fields of a type stay unparsed here until the
// definition of its `checkType` parses them.
import * as z from 'zod'
import { SECRET_TOO_LONG, secretsProblem } from './definition-secrets.ts'
import { IncidentSeverity } from './api/incident.ts'
import { RetryStrategy } from './retry.ts'
import { LIMITS } from './versions.ts'

export const FREQUENCIES = [0, 1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440] as const

const frequencyAllowed: ReadonlySet<number> = new Set(FREQUENCIES)

/** In deployments one resource names another by its logical id. */
const Reference = z.strictObject({ ref: z.string().min(1) })

/** A variable of a monitor; the value of a secret one is scrubbed everywhere. */
export const Variable = z
  .strictObject({
    key: z
      .string()
      .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'letters, digits and _ only, not starting with a digit'),
    value: z.string(),
    locked: z.boolean().default(false),
    secret: z.boolean().default(false),
  })
  .refine(({ value, secret }) => !secret || value.length <= LIMITS.secretCharactersMax, {
    path: ['value'],
    error: SECRET_TOO_LONG,
  })
export type Variable = z.infer<typeof Variable>

/** A header, a query parameter or an entry of metadata; the value of a locked one is scrubbed. */
export const Pair = z.strictObject({
  key: z.string().min(1),
  value: z.string().default(''),
  locked: z.boolean().default(false),
})

/** Headers or query parameters. */
export const Pairs = z.array(Pair).max(200).default([])

/** Credentials of Basic authentication (RFC 7617); empty ones are none. */
export const BasicAuth = z
  .strictObject({ username: z.string().default(''), password: z.string().default('') })
  .nullable()
  .optional()

/** The incident that an alert of the monitor opens. */
export const TriggerIncident = z.strictObject({
  serviceId: z.union([z.guid(), Reference]),
  severity: IncidentSeverity,
  name: z.string().min(1).max(2048),
  description: z.string(),
  notifySubscribers: z.boolean(),
})
export type TriggerIncident = z.infer<typeof TriggerIncident>

/** One of some numbers; the API document would otherwise show them as texts. */
function oneOf<const N extends number>(numbers: readonly N[]) {
  return z.literal(numbers).meta({ type: 'integer', enum: [...numbers] })
}

/** When failing runs become an alert, and how often reminders follow. */
export const AlertSettings = z.strictObject({
  escalationType: z.enum(['RUN_BASED', 'TIME_BASED']).default('RUN_BASED'),
  runBasedEscalation: z
    .strictObject({ failedRunThreshold: z.int().min(1).max(5).default(1) })
    .optional(),
  timeBasedEscalation: z
    .strictObject({ minutesFailingThreshold: oneOf([5, 10, 15, 30]).default(5) })
    .optional(),
  reminders: z
    .strictObject({
      amount: oneOf([0, 1, 2, 3, 4, 5, 100_000]).default(0),
      interval: oneOf([1, 2, 3, 4, 5, 10, 15, 30]).default(5),
    })
    .optional(),
  parallelRunFailureThreshold: z
    .strictObject({
      enabled: z.boolean().default(false),
      percentage: z.int().min(10).max(100).multipleOf(10).default(10),
    })
    .optional(),
})
export type AlertSettings = z.infer<typeof AlertSettings>

/** The fields that all types share, with their bounds and defaults. */
export const commonFields = {
  id: z.string().min(1).max(255),
  name: z.string().min(1).max(2048),
  description: z.string().max(510).nullable().default(null),
  activated: z.boolean().default(true),
  muted: z.boolean().default(false),
  shouldFail: z.boolean().default(false),
  /** Deprecated in the contract: accepted, without effect; see `retryStrategy`. */
  doubleCheck: z.boolean().default(true),
  locations: z.array(z.string().min(1)).nullable().default([]),
  privateLocations: z.array(z.string().min(1)).nullable().optional(),
  tags: z.array(z.string()).default([]),
  frequency: z
    .number()
    .refine((minutes) => frequencyAllowed.has(minutes), {
      error: `must be one of ${FREQUENCIES.join(', ')} minutes (0 means frequencyOffset seconds)`,
    })
    .default(10),
  /** With frequency 0 the interval in seconds; otherwise stored and without effect. */
  frequencyOffset: z.int().min(1).optional(),
  runParallel: z.boolean().default(false),
  groupId: z.union([z.int(), Reference]).nullable().default(null),
  groupOrder: z.int().nullable().default(null),
  runtimeId: z
    .enum(['2026.04', '2025.04', '2024.09', '2024.02', '2023.09', '2023.02', '2022.10'])
    .nullable()
    .default(null),
  useGlobalAlertSettings: z.boolean().default(true),
  alertSettings: AlertSettings.nullable().optional(),
  alertChannelSubscriptions: z
    .array(
      z.strictObject({ alertChannelId: z.union([z.int(), Reference]), activated: z.boolean() }),
    )
    .default([]),
  retryStrategy: RetryStrategy.nullable().default(null),
  triggerIncident: TriggerIncident.nullable().default(null),
  intent: z.unknown().optional(),
  aiAutoRepairEnabled: z.boolean().nullable().optional(),
  environmentVariables: z.array(Variable).max(LIMITS.variablesMax).default([]),
}

const Timed = z.object({
  frequency: commonFields.frequency,
  frequencyOffset: commonFields.frequencyOffset,
})
type Timed = z.infer<typeof Timed>

/** With frequency 0 the offset is the interval in seconds; refuse what has no slots, or too many. */
function timingProblem(
  { frequency, frequencyOffset = 60 }: Timed,
  who: string,
  secondsMin: number,
) {
  if (frequency !== 0) return undefined
  if (frequencyOffset > 59) {
    const message = 'frequency 0 needs a frequencyOffset of 1 to 59 seconds'
    return { path: ['frequencyOffset'], message }
  }
  if (frequencyOffset >= secondsMin) return undefined
  const least = secondsMin < 60 ? `every ${secondsMin} seconds` : 'once a minute'
  return {
    path: secondsMin < 60 ? ['frequencyOffset'] : ['frequency'],
    message: `${who} monitors run at most ${least}`,
  }
}

/** A monitor whose common fields are validated and whose own fields are not. */
export const Monitor = z.looseObject({ ...commonFields, checkType: z.string().min(1).max(64) })
export type Monitor = z.infer<typeof Monitor>

type Shape = Record<string, z.ZodType>

/**
 * The whole definition of one type of monitor: the common fields, `checkType`, and the type's own.
 * Unknown keys are refused, and so are slots closer together than `everySecondsMin`.
 */
export function monitorSchema<const T extends string, S extends Shape>(
  checkType: T,
  own: S,
  everySecondsMin = 1,
) {
  return z
    .strictObject({ ...commonFields, checkType: z.literal(checkType), ...own })
    .superRefine(
      (monitor, context) => {
        const problem = timingProblem(monitor as Timed, checkType, everySecondsMin)
        if (problem !== undefined) context.addIssue({ code: 'custom', ...problem })
      },
      // Problems of other fields are reported at the same time.
      { when: ({ value }) => Timed.safeParse(value).success },
    )
    .superRefine((monitor, context) => {
      const problem = secretsProblem(monitor)
      if (problem !== undefined) context.addIssue({ code: 'custom', ...problem })
    })
}

const millisecondsError = ({ code }: { code?: string }) =>
  code === 'invalid_type' ? 'must be a whole number of milliseconds' : undefined

/** The pair of response-time thresholds, in milliseconds, with a type's defaults and upper bound. */
export function responseTimes(degradedMs: number, maxMs: number, capMs = LIMITS.attemptMsMax) {
  const bounded = (msMin: number) => z.int({ error: millisecondsError }).min(msMin).max(capMs)
  return {
    degradedResponseTime: bounded(0).default(degradedMs),
    maxResponseTime: bounded(1).default(maxMs),
  }
}
