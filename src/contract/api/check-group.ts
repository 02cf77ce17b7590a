// Groups of monitors in the public wire form, and the inheritance from group to monitor. Order of precedence:
// monitor, group, account.
import * as z from 'zod'
import { assertionsSchema } from '../assertion.ts'
import { API_SOURCES, scriptFields } from '../http-monitor.ts'
import {
  BasicAuth,
  AlertSettings,
  commonFields,
  type Monitor,
  Pairs,
  type Variable,
} from '../monitor.ts'
import { RetryStrategy } from '../retry.ts'
import { NoSnippet, ScriptText } from '../script-fields.ts'
import { LIMITS } from '../versions.ts'

/** Defaults of the requests of API monitors in a group. */
const ApiCheckDefaults = z.strictObject({
  /** Known to the group's monitors as the variable GROUP_BASE_URL. */
  url: z.string().max(2048).default(''),
  headers: Pairs,
  queryParameters: Pairs,
  basicAuth: BasicAuth,
  assertions: assertionsSchema(API_SOURCES),
})
type ApiCheckDefaults = z.infer<typeof ApiCheckDefaults>

/** The defaults of a group without settings. */
export const NO_API_CHECK_DEFAULTS = ApiCheckDefaults.parse({})

/** A group of monitors. Fields left out or null do not change its monitors. */
export const CheckGroup = z.strictObject({
  name: z.string().min(1).max(2048),
  activated: commonFields.activated,
  muted: commonFields.muted,
  tags: commonFields.tags,
  /** Not empty: instead of the monitors' own. */
  locations: commonFields.locations,
  /** Not empty: instead of the monitors' own. */
  privateLocations: commonFields.privateLocations,
  /** Monitors of the group that run at the same time when it is run as a whole. */
  concurrency: z.int().min(1).max(1000).default(10),
  runParallel: z.boolean().nullable().optional(),
  runtimeId: commonFields.runtimeId,
  /** NO_RETRIES: the monitors have none. FALLBACK, as null: their own. */
  retryStrategy: z
    .union([RetryStrategy, z.literal('FALLBACK')])
    .nullable()
    .optional(),
  /** Deprecated in the contract: accepted, without effect. */
  doubleCheck: z.boolean().nullable().optional(),
  alertSettings: AlertSettings.nullable().optional(),
  /** True: the account's settings hold for all monitors of the group. */
  useGlobalAlertSettings: z.boolean().nullable().optional(),
  alertChannelSubscriptions: commonFields.alertChannelSubscriptions,
  environmentVariables: commonFields.environmentVariables,
  apiCheckDefaults: ApiCheckDefaults.nullable().optional(),
  localSetupScript: ScriptText,
  localTearDownScript: ScriptText,
  setupSnippetId: NoSnippet,
  tearDownSnippetId: NoSnippet,
  /** Which rules of inheritance hold; there is only this version. */
  v: z.literal(2).optional(),
})
export type CheckGroup = z.infer<typeof CheckGroup>

/**
 * The monitor as it holds in its group. Neither is changed; of the monitor the common part must have been
 * parsed, of the group all.
 * - `locations` and `privateLocations` of the group that are not empty, each for itself, and
 *   `runParallel`, `retryStrategy` and alert settings that are set, stand instead of the monitor's.
 * - It is activated where both are and muted where either is; it has the tags and alert channels of both.
 * - Variables, runtime, scripts and request defaults of API monitors apply after its own.
 */
export function inherit(monitor: Monitor, group: CheckGroup): Monitor {
  const { locations, privateLocations, retryStrategy } = group
  return {
    ...monitor,
    activated: monitor.activated && group.activated,
    muted: monitor.muted || group.muted,
    tags: [...new Set([...monitor.tags, ...group.tags])],
    ...(locations !== null && locations.length > 0 && { locations }),
    ...((privateLocations ?? []).length > 0 && { privateLocations }),
    runParallel: group.runParallel ?? monitor.runParallel,
    retryStrategy: (retryStrategy === 'FALLBACK' ? null : retryStrategy) ?? monitor.retryStrategy,
    runtimeId: monitor.runtimeId ?? group.runtimeId,
    ...alertsOf(group),
    alertChannelSubscriptions: behind(
      monitor.alertChannelSubscriptions,
      group.alertChannelSubscriptions,
      ({ alertChannelId }) => JSON.stringify(alertChannelId),
    ),
    environmentVariables: behind(
      monitor.environmentVariables,
      groupVariables(group),
      ({ key }) => key,
    ),
    ...(monitor.checkType === 'API' && apiFields(monitor, group)),
  }
}

/** The alert settings that a group sets, if any. */
function alertsOf({ useGlobalAlertSettings, alertSettings }: CheckGroup): Partial<Monitor> {
  if (useGlobalAlertSettings === true) return { useGlobalAlertSettings, alertSettings: null }
  if (alertSettings === undefined || alertSettings === null) return {}
  return { useGlobalAlertSettings: false, alertSettings }
}

/** All of `first`, then those of `second` that `first` has not, by their key. */
function behind<T>(first: readonly T[], second: readonly T[], keyOf: (one: T) => string): T[] {
  const known = new Set(first.map(keyOf))
  return [...first, ...second.filter((one) => !known.has(keyOf(one)))]
}

/** The variables that a group's monitors know, behind their own. */
export function groupVariables({ environmentVariables, apiCheckDefaults }: CheckGroup): Variable[] {
  const value = apiCheckDefaults?.url ?? ''
  if (value === '') return environmentVariables
  const baseUrl = { key: 'GROUP_BASE_URL', value, locked: false, secret: false }
  return behind(environmentVariables, [baseUrl], ({ key }) => key)
}

/** The part of an API monitor's request that a group may add to; defaults may not be in it yet. */
type ApiFields = Partial<
  Pick<ApiCheckDefaults, 'headers' | 'queryParameters' | 'basicAuth' | 'assertions'>
>

function apiFields(monitor: Monitor, group: CheckGroup): Record<string, unknown> {
  const request = monitor['request'] as ApiFields
  const defaults = group.apiCheckDefaults
  return {
    ...scriptsOf(monitor, group),
    ...(defaults && { request: { ...request, ...requestFields(request, defaults) } }),
  }
}

function requestFields(request: ApiFields, defaults: ApiCheckDefaults): ApiFields {
  const { username = '', password = '' } = request.basicAuth ?? {}
  const basicAuth = username === '' && password === '' ? defaults.basicAuth : request.basicAuth
  return {
    headers: behind(request.headers ?? [], defaults.headers, ({ key }) => key.toLowerCase()),
    queryParameters: behind(
      request.queryParameters ?? [],
      defaults.queryParameters,
      ({ key }) => key,
    ),
    ...(basicAuth !== undefined && { basicAuth }),
    assertions: behind(request.assertions ?? [], defaults.assertions, (one) => JSON.stringify(one)),
  }
}

/** The group's scripts, where the monitor has none for the same moment. */
function scriptsOf(monitor: Monitor, group: CheckGroup): Record<string, unknown> {
  const own = scriptFields(monitor)
  const inherited = scriptFields(group).filter((field) => !own.includes(field))
  return Object.fromEntries(inherited.map((field) => [field, group[field]]))
}

/** Error text if the monitor exceeds a bound together with its group; else undefined. */
export function inheritanceProblem(effective: Monitor): string | undefined {
  const { environmentVariables } = effective
  if (environmentVariables.length > LIMITS.variablesMax) {
    return `has more than ${LIMITS.variablesMax} variables together with its group`
  }
  if (effective.checkType !== 'API') return undefined
  const request = effective['request'] as ApiFields
  const { headers = [], queryParameters = [], assertions = [] } = request
  if (headers.length > 200) return 'has more than 200 headers together with its group'
  if (queryParameters.length > 200) return 'has more than 200 parameters together with its group'
  if (assertions.length <= LIMITS.assertionsMax) return undefined
  return `has more than ${LIMITS.assertionsMax} assertions together with its group`
}
