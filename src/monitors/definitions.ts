// Every type of monitor as data, whether this agent can run it or not. The tables by type, code and metric
// are merged from the definitions. The only file of monitors that the platform imports.
import type { About, Failure, FailureKind } from '../contract/failure.ts'
import { aboutIn, FAILURES as SHARED_FAILURES } from '../contract/failure.ts'
import { type CheckGroup, inherit } from '../contract/api/check-group.ts'
import { Monitor } from '../contract/monitor.ts'
import { objections, type Objection, valueAt } from '../contract/schema/explain.ts'
import type { TypeDefinition } from '../contract/type/definition.ts'
import { type Lookup, substitute, substituteOwn } from '../contract/variables.ts'
import { apiDefinition } from './api/definition.ts'
import { browserDefinition } from './browser/definition.ts'
import { dnsDefinition } from './dns/definition.ts'
import { grpcDefinition } from './grpc/definition.ts'
import { heartbeatDefinition } from './heartbeat/definition.ts'
import { icmpDefinition } from './icmp/definition.ts'
import { multistepDefinition } from './multistep/definition.ts'
import { sslDefinition } from './ssl/definition.ts'
import { suiteDefinition } from './suite/definition.ts'
import { tcpDefinition } from './tcp/definition.ts'
import { tracerouteDefinition } from './traceroute/definition.ts'
import { urlDefinition } from './url/definition.ts'
import { webSocketDefinition } from './websocket/definition.ts'

export { type Heartbeat, heartbeatTiming } from './heartbeat/definition.ts'

const ALL = [
  urlDefinition,
  apiDefinition,
  tcpDefinition,
  dnsDefinition,
  icmpDefinition,
  grpcDefinition,
  tracerouteDefinition,
  sslDefinition,
  browserDefinition,
  multistepDefinition,
  suiteDefinition,
  heartbeatDefinition,
  webSocketDefinition,
] as const

/** A type that can be defined. */
export type DefinedType = (typeof ALL)[number]['checkType']
/** Every type that the public contract knows. */
export type CheckType = DefinedType | 'AGENTIC'

/** The definition of each type, in the order of the contract. */
export const DEFINITIONS: ReadonlyMap<string, TypeDefinition> = new Map(
  ALL.map((one): [string, TypeDefinition] => [one.checkType, one]),
)
export const DEFINED_TYPES: readonly DefinedType[] = ALL.map(({ checkType }) => checkType)
export const CHECK_TYPES: readonly CheckType[] = [...DEFINED_TYPES, 'AGENTIC']

/** The definition of a type that can be defined. */
export function definitionOf(checkType: DefinedType): TypeDefinition {
  return DEFINITIONS.get(checkType) as TypeDefinition
}

/** Every failure code, those of single types included. */
export const FAILURES: Readonly<Record<string, FailureKind>> = Object.assign(
  { ...SHARED_FAILURES },
  ...ALL.map((one: TypeDefinition) => one.failures ?? {}),
)

/** Every metric that monitors give, with its help text. */
export const METRICS: ReadonlyMap<string, string> = new Map(
  ALL.flatMap(({ metrics }) => Object.entries(metrics)),
)

/** Whether the failure is about the target or about this agent; a code of a later version is about the target. */
export function aboutWhom(failed: Failure): About {
  return aboutIn(FAILURES, failed)
}

/** Error text of an unknown monitor type, or undefined. */
export function typeProblem(checkType: unknown): string | undefined {
  if (checkType === 'AGENTIC') return 'AGENTIC monitors cannot run in private locations'
  if (typeof checkType === 'string' && DEFINITIONS.has(checkType)) return undefined
  return `must be one of ${DEFINED_TYPES.join(', ')}`
}

/** A definition that is good, with its defaults, or what is wrong with it. */
export type DefinitionReading =
  { ok: true; definition: Monitor } | { ok: false; problems: Objection[] }

/**
 * Checks a definition, `id` included, as it will be run: with the variables put in that `lookup` knows. A
 * text with one that is not known yet is given the benefit of the doubt. What comes back is still as it
 * was written; where variables stand in it, defaults are filled in for the common fields alone.
 */
export function readDefinition(
  written: Readonly<Record<string, unknown>>,
  lookup: Lookup,
): DefinitionReading {
  const { checkType } = written
  const schema = DEFINITIONS.get(checkType as string)?.schema
  if (schema === undefined) {
    const message = typeProblem(checkType) ?? ''
    const kind = checkType === undefined ? 'missing' : 'value'
    return {
      ok: false,
      problems: [{ path: ['checkType'], message, kind, candidates: DEFINED_TYPES }],
    }
  }
  const { value } = substituteOwn(written, lookup)
  const parsed = schema.safeParse(value)
  const isPlain = substituteOwn(written, () => undefined).unknown.length === 0
  if (parsed.success) {
    return { ok: true, definition: isPlain ? (parsed.data as Monitor) : Monitor.parse(written) }
  }
  const problems = objections(parsed.error, schema, value).filter(
    ({ path }) => isPlain || substitute(valueAt(value, path), () => undefined).unknown.length === 0,
  )
  if (problems.length > 0) return { ok: false, problems }
  return { ok: true, definition: Monitor.parse(written) }
}

/** The monitor as it holds in its group, if it has one; see `inherit`. Neither is changed. */
export function effectiveMonitor(monitor: Monitor, group: CheckGroup | undefined): Monitor {
  const own = group === undefined ? monitor : inherit(monitor, group)
  const isRetried = DEFINITIONS.get(own.checkType)?.isNeverRetried !== true
  return isRetried || own.retryStrategy === null ? own : { ...own, retryStrategy: null }
}

/** Whether the platform waits for pings of this type, so that it has neither slots nor locations. */
export function isPinged(checkType: unknown): boolean {
  return DEFINITIONS.get(checkType as string)?.isPinged === true
}

/**
 * Requirements of a monitor that its schema has parsed: its type and those of its definition, like
 * `engine:node@24` or `runtime:2026.04`.
 */
export function needsOf(monitor: Monitor): string[] {
  const more = DEFINITIONS.get(monitor.checkType)?.requirements?.(monitor) ?? []
  return [monitor.checkType, ...more]
}

export type { SuiteMonitor } from './suite/definition.ts'
