// Planner: substitutes variables, parses settings and collects secrets, once for each definition; and what it plans
// with: the settings of the location, and whether a monitor is user code.
import type * as z from 'zod'
import {
  definitionSecrets,
  urlSecrets,
  variableSecrets,
} from '../../contract/definition-secrets.ts'
import { objections } from '../../contract/schema/explain.ts'
import { failure, type Failure } from '../../contract/failure.ts'
import { setsVariables } from '../../contract/http-monitor.ts'
import type { Monitor, Variable } from '../../contract/monitor.ts'
import { SecretSet } from '../../contract/secret-set.ts'
import { shownFault } from '../../process/faults/fault.ts'
import { createNameTest } from '../../contract/protocol/sensitive-name.ts'
import { substituteOwn } from '../../contract/variables.ts'
import type { UserCode } from '../../contract/type/definition.ts'
import { DEFINITIONS } from '../../monitors/definitions.ts'
import type { Dialler } from '../../network/dial.ts'
import type { AnyMonitorType, Run } from '../../monitors/monitor.ts'
import { createScrubber, type Scrubber } from '../redaction/scrub.ts'
import type { Snapshot } from '../source.ts'

/** Settings shared by all monitors of a location. A new object whenever any of them changes. */
export interface LocationContext {
  location: string
  /** Owner of the monitors, on a platform. */
  accountId?: string
  variables: readonly Variable[]
  dial: Dialler
  /** Further secrets: those of the proxy. */
  secrets: readonly string[]
}

/** Makes the context; `dial` makes the dialler, through the location's proxy if it has one. */
export function locationContextOf(
  { location, variables, proxyUrl, accountId }: Snapshot,
  dial: (proxyUrl: string | undefined) => Dialler,
): LocationContext {
  const account = accountId === undefined ? {} : { accountId }
  return {
    location,
    ...account,
    variables,
    dial: dial(proxyUrl),
    secrets: urlSecrets(proxyUrl ?? ''),
  }
}

/**
 * As `locationContextOf`, or the previous object when nothing changed, so that prepared plans stay valid.
 * `proxyBefore` is the previous proxy.
 */
export function nextLocationContext(
  before: LocationContext | undefined,
  proxyBefore: string | undefined,
  snapshot: Snapshot,
  dial: (proxyUrl: string | undefined) => Dialler,
): LocationContext {
  const { location, variables, proxyUrl, accountId } = snapshot
  if (before === undefined || proxyBefore !== proxyUrl) return locationContextOf(snapshot, dial)
  const same =
    before.location === location &&
    before.accountId === accountId &&
    (before.variables === variables ||
      JSON.stringify(before.variables) === JSON.stringify(variables))
  return same ? before : locationContextOf(snapshot, () => before.dial)
}

/** Class of a job queue: uptime checks never wait behind browsers and scripts. */
export type QueueClass = 'uptime' | 'scripted'

/** Whether a monitor is a program, which may write anything anywhere. */
export function isProgram(monitor: Monitor): boolean {
  return userCodeOf(monitor) === 'program'
}

/** Whether a monitor runs user code: it is a program, or has scripts. */
export function runsUserCode(monitor: Monitor): boolean {
  return userCodeOf(monitor) !== undefined
}

/** Queue class of a monitor's jobs. */
export function queueClassOf(monitor: Monitor): QueueClass {
  return runsUserCode(monitor) ? 'scripted' : 'uptime'
}

function userCodeOf(monitor: Monitor): UserCode | undefined {
  return DEFINITIONS.get(monitor.checkType)?.userCode?.(monitor)
}

/** A definition that is ready to run, or its problems. */
export type RunPlan = { scrub: Scrubber } & (
  | {
      type: AnyMonitorType
      run: Run
      /** The monitor as its schema has parsed it. */
      monitor: unknown
      deadlineMs: number
      overrunMsMax: number | undefined
      /** For the environment of user code. */
      variables: Readonly<Record<string, string>>
      /** Definition before substitution, where its own script may set variables. */
      written?: Readonly<Record<string, unknown>>
    }
  | { problems: Failure[] }
)

/**
 * Makes a planner for the given types, which makes the plan of each monitor once; `scrubHeaders` are scrubbed in
 * addition to the usual headers.
 */
export function createPlanner(
  types: ReadonlyMap<string, AnyMonitorType>,
  scrubHeaders: readonly string[],
): (monitor: Monitor, locationContext: LocationContext) => RunPlan {
  const isSensitive = createNameTest(scrubHeaders)
  let holder: LocationContext | undefined
  let plans = new WeakMap<Monitor, RunPlan>()
  // Thousands of monitors share a few sets of secrets, most of them the location's alone.
  let scrubbers = new Map<string, Scrubber>()

  const scrubberFor = (secrets: string[]): Scrubber => {
    const distinct = new SecretSet(secrets)
    const key = JSON.stringify([...distinct].sort())
    let scrubber = scrubbers.get(key)
    if (scrubber === undefined) {
      scrubber = createScrubber({ secrets: distinct, headers: scrubHeaders }, isSensitive)
      scrubbers.set(key, scrubber)
    }
    return scrubber
  }

  const make = (monitor: Monitor, locationContext: LocationContext): RunPlan => {
    const variables = [...locationContext.variables, ...monitor.environmentVariables]
    const values = new Map(variables.map(({ key, value }) => [key, value]))
    const put = substituteOwn(monitor, (name) => values.get(name))
    const scrub = scrubberFor([
      ...locationContext.secrets,
      ...variableSecrets(variables),
      ...definitionSecrets(put.value, isSensitive),
    ])
    const type = types.get(monitor.checkType)
    if (type === undefined) return { scrub, problems: [unsupported(monitor.checkType, types)] }
    const isLate = setsVariables(monitor)
    if (put.unknown.length > 0 && !isLate) {
      return { scrub, problems: put.unknown.map(unknownVariable) }
    }
    const parsed = type.schema.safeParse(put.value)
    if (!parsed.success) return { scrub, problems: invalid(parsed.error, type.schema, put.value) }
    return {
      scrub,
      type,
      run: type.prepare(parsed.data),
      monitor: parsed.data,
      deadlineMs: type.deadlineMs(parsed.data),
      overrunMsMax: type.overrunMsMax,
      variables: Object.fromEntries(values),
      ...(isLate && { written: monitor }),
    }
  }

  return (monitor, locationContext) => {
    if (holder !== locationContext) {
      holder = locationContext
      plans = new WeakMap()
      scrubbers = new Map()
    }
    let plan = plans.get(monitor)
    if (plan === undefined) {
      plan = madeOrBroken(() => make(monitor, locationContext))
      plans.set(monitor, plan)
    }
    return plan
  }
}

// A type whose schema, plan or deadline throws has a fault; it must not end the agent.
function madeOrBroken(make: () => RunPlan): RunPlan {
  try {
    return make()
  } catch (error) {
    // The message may quote a secret, and secrets are not known yet.
    const { class: name, at } = shownFault(error)
    const message = `${name}: the settings could not be read`
    const stack = [message, ...at.map((one) => `    at ${one}`)].join('\n')
    const problem = failure('INTERNAL', message, { stack })
    return { scrub: createScrubber({}), problems: [problem] }
  }
}

function unsupported(checkType: string, types: ReadonlyMap<string, AnyMonitorType>): Failure {
  const known = [...types.keys()].join(', ')
  const message = `this agent cannot run ${checkType} monitors; it can run ${known}`
  return failure('CHECK_TYPE_UNSUPPORTED', message, { checkType })
}

function unknownVariable(name: string): Failure {
  const message = `the variable ${name} is not defined; define it or remove {{${name}}}`
  return failure('VARIABLE_UNKNOWN', message, { variable: name })
}

/** Problems of one definition that are worth showing at once. */
const PROBLEMS_MAX = 10

function invalid(error: z.ZodError, schema: z.ZodType, value: unknown): Failure[] {
  return objections(error, schema, value)
    .slice(0, PROBLEMS_MAX)
    .map(({ path, message }) => {
      const where = path.join('.')
      return failure('SETTINGS_INVALID', `${where === '' ? 'the monitor' : where}: ${message}`, {
        path: where,
      })
    })
}
