// Every type of monitor with the schema of its definition, whether this agent can run it or not, and what
// it takes to run one.
import type * as z from 'zod'
import { BrowserMonitor } from './browser/definition.ts'
import { DnsMonitor } from './dns/definition.ts'
import { chooseEngine, type EngineName } from '../contract/engine.ts'
import { objections, type Objection, valueAt } from '../contract/schema/explain.ts'
import { GrpcMonitor } from './grpc/definition.ts'
import { HeartbeatMonitor } from './heartbeat/definition.ts'
import { ApiMonitor, scriptFields, UrlMonitor } from '../contract/http-monitor.ts'
import { IcmpMonitor } from './icmp/definition.ts'
import { CHECK_TYPES, type CheckType, Monitor } from '../contract/monitor.ts'
import { MultistepMonitor } from './multistep/definition.ts'
import { SslMonitor } from './ssl/definition.ts'
import { SuiteMonitor } from './suite/definition.ts'
import { TcpMonitor } from './tcp/definition.ts'
import { TracerouteMonitor } from './traceroute/definition.ts'
import { type Lookup, substitute, substituteOwn } from '../contract/variables.ts'
import { DEFAULT_RUNTIME } from '../contract/versions.ts'

/** checkType → schema of the whole definition. */
const SCHEMAS: Readonly<Record<Exclude<CheckType, 'AGENTIC'>, z.ZodObject>> = {
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

/**
 * The schema of a whole definition of this type, `id` and `checkType` included; undefined where
 * `typeProblem` says why.
 */
export function definitionSchema(checkType: string): z.ZodObject | undefined {
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
  const schema = typeof checkType === 'string' ? definitionSchema(checkType) : undefined
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

export type { SuiteMonitor }

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
