// Every type of monitor with the schema of its definition, whether this agent can run it or not, and what
// it takes to run one.
import type * as z from 'zod'
import { BrowserMonitor } from './browser-monitor.ts'
import { DnsMonitor } from './dns-monitor.ts'
import { chooseEngine, type EngineName } from './engine.ts'
import { objections, type Objection, valueAt } from './explain.ts'
import { GrpcMonitor } from './grpc-monitor.ts'
import { HeartbeatMonitor } from './heartbeat-monitor.ts'
import { ApiMonitor, scriptFields, UrlMonitor } from './http-monitor.ts'
import { IcmpMonitor } from './icmp-monitor.ts'
import { CHECK_TYPES, type CheckType, type Monitor } from './monitor.ts'
import { MultistepMonitor } from './multistep-monitor.ts'
import { SslMonitor } from './ssl-monitor.ts'
import { SuiteMonitor } from './suite-monitor.ts'
import { TcpMonitor } from './tcp-monitor.ts'
import { TracerouteMonitor } from './traceroute-monitor.ts'
import { type Lookup, substitute, substituteOwn } from './variables.ts'
import { MANIFESTS } from './versions.ts'

/** checkType → schema of the whole definition. */
const SCHEMAS: Readonly<Record<Exclude<CheckType, 'AGENTIC'>, z.ZodType>> = {
  URL: UrlMonitor,
  API: ApiMonitor,
  TCP: TcpMonitor,
  DNS: DnsMonitor,
  ICMP: IcmpMonitor,
  GRPC: GrpcMonitor,
  TRACEROUTE: TracerouteMonitor,
  SSL: SslMonitor,
  BROWSER: BrowserMonitor,
  MULTI_STEP: MultistepMonitor,
  PLAYWRIGHT: SuiteMonitor,
  HEARTBEAT: HeartbeatMonitor,
}

/** The types that can be defined, in the order of the contract. */
export const DEFINED_TYPES = CHECK_TYPES.filter((one) => one !== 'AGENTIC')
export type DefinedType = (typeof DEFINED_TYPES)[number]

/** The schema of a whole definition of this type; undefined where `typeProblem` says why. */
export function definitionSchema(checkType: string): z.ZodType | undefined {
  return Object.hasOwn(SCHEMAS, checkType) ? SCHEMAS[checkType as DefinedType] : undefined
}

/** All of them by checkType. */
export const DEFINITION_SCHEMAS: ReadonlyMap<string, { schema: z.ZodType }> = new Map(
  Object.entries(SCHEMAS).map(([checkType, schema]) => [checkType, { schema }]),
)

/** What is wrong with a type of monitor, or undefined. */
export function typeProblem(checkType: unknown): string | undefined {
  if (checkType === 'AGENTIC') return 'AGENTIC monitors cannot run in private locations'
  if (typeof checkType === 'string' && Object.hasOwn(SCHEMAS, checkType)) return undefined
  return `must be one of ${DEFINED_TYPES.join(', ')}`
}

/**
 * What is wrong with a definition, with the variables put in that `lookup` knows; nothing when it is
 * good. A text with a variable that is not known yet is given the benefit of the doubt.
 */
export function definitionProblems(
  definition: Readonly<Record<string, unknown>>,
  lookup: Lookup,
): Objection[] {
  const { checkType } = definition
  const schema = typeof checkType === 'string' ? definitionSchema(checkType) : undefined
  if (schema === undefined) {
    const message = typeProblem(checkType) ?? ''
    return [{ path: ['checkType'], message, kind: 'value', candidates: DEFINED_TYPES }]
  }
  const { value } = substituteOwn(definition, lookup)
  const parsed = schema.safeParse(value)
  if (parsed.success) return []
  return objections(parsed.error, schema, value).filter(
    ({ path }) => substitute(valueAt(value, path), () => undefined).unknown.length === 0,
  )
}

/** The runtime for scripts that name none: the newest. */
export const DEFAULT_RUNTIME: string = MANIFESTS.at(-1)?.runtimes.toSorted().at(-1) ?? ''

/**
 * What it takes to run a monitor that `definitionSchema` has parsed, in the words of agents' abilities:
 * its type; `engine:node@24` for a suite; `runtime:2026.04` for what has scripts.
 */
export function needsOf(monitor: Monitor): string[] {
  const { checkType, runtimeId } = monitor
  if (checkType === 'PLAYWRIGHT') {
    const { engine, engineVersion } = monitor as unknown as SuiteMonitor
    return [checkType, `engine:${engineFor(engine, engineVersion)}`]
  }
  const isScripted = checkType === 'BROWSER' || checkType === 'MULTI_STEP'
  if (isScripted || (checkType === 'API' && scriptFields(monitor).length > 0)) {
    return [checkType, `runtime:${runtimeId ?? DEFAULT_RUNTIME}`]
  }
  return [checkType]
}

function engineFor(name: EngineName = 'node', version?: string | null): string {
  const chosen = chooseEngine(name, version)
  // A version that cannot be had never passes the schema; should it, then no agent is able.
  return typeof chosen === 'string' ? `${name}@${version}` : chosen.engine
}
