// URL and API monitors in the public wire form.
import * as z from 'zod'
import { assertionsSchema, COMPARISONS, NUMERIC, type SourceRules } from './assertion.ts'
import { BasicAuth, monitorSchema, Pairs, responseTimes } from './monitor.ts'
import { counted } from './schema/amounts.ts'
import { checkedText } from './schema/text.ts'
import { NoSnippet, ScriptDependencies, ScriptPath, ScriptText } from './script-fields.ts'
import { TlsSettings } from './tls.ts'

const status = { comparisons: NUMERIC, property: 'none', numeric: true } as const

export const URL_SOURCES = { STATUS_CODE: status } as const satisfies SourceRules

export const API_SOURCES = {
  STATUS_CODE: { comparisons: COMPARISONS, property: 'none' },
  JSON_BODY: { comparisons: COMPARISONS, property: 'json-path' },
  HEADERS: { comparisons: COMPARISONS, property: 'header' },
  TEXT_BODY: { comparisons: COMPARISONS, property: 'regex' },
  RESPONSE_TIME: { delay: 'stretched', comparisons: COMPARISONS, property: 'none', numeric: true },
} as const satisfies SourceRules

const BEGINS_WITH_VARIABLE = /^\{\{\s*[A-Za-z_][A-Za-z0-9_]*\s*\}\}/

/** A variable at its beginning may get its value from a set-up script. */
const openUrl = checkedText((text) =>
  BEGINS_WITH_VARIABLE.test(text) ? undefined : urlProblem(text),
)

/** Error text of an invalid address of an HTTP check, or undefined. */
export function urlProblem(text: string): string | undefined {
  if (!URL.canParse(text)) return 'not a URL; write it in full, like https://example.com/path'
  const { protocol } = new URL(text)
  if (protocol === 'http:' || protocol === 'https:') return undefined
  return 'cannot check such addresses; use http:// or https://'
}

const shared = {
  url: checkedText(urlProblem),
  followRedirects: z.boolean().default(true),
  /** Continues when the certificate does not verify; its problems are still reported. */
  skipSSL: z.boolean().default(false),
  ipFamily: z.enum(['IPv4', 'IPv6']).default('IPv4'),
  /** Ours: TLS settings beyond the wire form. */
  tls: TlsSettings.optional(),
  /** Ours: probe every address that the name resolves to, not only the first. */
  allAddresses: z.boolean().default(false),
}

/** The request of a URL monitor. */
const UrlRequest = z.strictObject({
  ...shared,
  method: z.literal('GET').default('GET'),
  assertions: assertionsSchema(URL_SOURCES),
})

/** The request of an API monitor. */
export const ApiRequest = z.strictObject({
  ...shared,
  method: z.enum(['GET', 'POST', 'PUT', 'HEAD', 'DELETE', 'PATCH', 'OPTIONS']),
  body: z.string().default(''),
  bodyType: z.enum(['JSON', 'FORM', 'RAW', 'GRAPHQL', 'NONE']).default('NONE'),
  headers: Pairs,
  queryParameters: Pairs,
  basicAuth: BasicAuth,
  assertions: assertionsSchema(API_SOURCES),
})
export type ApiRequest = z.infer<typeof ApiRequest>

export const UrlMonitor = monitorSchema('URL', {
  request: UrlRequest,
  ...responseTimes(3000, 5000),
})
export type UrlMonitor = z.infer<typeof UrlMonitor>

const scripts = {
  localSetupScript: ScriptText,
  localTearDownScript: ScriptText,
  /** Path of the script in its project, for its relative imports. */
  setupScriptPath: ScriptPath,
  tearDownScriptPath: ScriptPath,
  /** Files that the script imports, by their paths in the project. */
  setupScriptDependencies: ScriptDependencies,
  tearDownScriptDependencies: ScriptDependencies,
  setupSnippetId: NoSnippet,
  tearDownSnippetId: NoSnippet,
}

/** Whether it is a text with something to read in it. */
export const isText = (given: unknown) => typeof given === 'string' && given.trim() !== ''

const SCRIPT_TEXTS = ['localSetupScript', 'localTearDownScript'] as const

/** The script fields of a definition that contain a script; an empty text is none. */
export function scriptFields(definition: Readonly<Record<string, unknown>>) {
  return SCRIPT_TEXTS.filter((field) => isText(definition[field]))
}

/**
 * Whether variables of the request may come from the monitor's own set-up script, so that they need not be
 * known before it ran.
 */
export function setsVariables(definition: Readonly<Record<string, unknown>>): boolean {
  return definition['checkType'] === 'API' && isText(definition['localSetupScript'])
}

type Scripted = z.infer<z.ZodObject<typeof scripts>> & {
  request: Pick<ApiRequest, 'url' | 'allAddresses'>
}

/** Problems of the scripts, and of the request if no script changes it. */
function* scriptProblems(monitor: Scripted) {
  const { setupScriptPath, tearDownScriptPath, request } = monitor
  const message = isText(monitor.localSetupScript) ? undefined : urlProblem(request.url)
  if (message !== undefined) yield { path: ['request', 'url'], message }
  if (isText(setupScriptPath) && !isText(monitor.localSetupScript)) {
    yield { path: ['setupScriptPath'], message: 'has no text; put it into localSetupScript' }
  }
  if (isText(tearDownScriptPath) && !isText(monitor.localTearDownScript)) {
    yield { path: ['tearDownScriptPath'], message: 'has no text; put it into localTearDownScript' }
  }
  if (request.allAddresses && isText(monitor.localTearDownScript)) {
    const only = 'cannot be used with a tear-down script, which handles one answer'
    yield { path: ['request', 'allAddresses'], message: only }
  }
}

export const ApiMonitor = monitorSchema('API', {
  request: ApiRequest.extend({ url: openUrl }),
  ...responseTimes(5000, 20_000),
  ...scripts,
}).superRefine((monitor, context) => {
  for (const problem of scriptProblems(monitor)) context.addIssue({ code: 'custom', ...problem })
})
export type ApiMonitor = z.infer<typeof ApiMonitor>

/** Summary of an observation: status and redirects. */
export function httpSummary(observed: Readonly<Record<string, unknown>>): string[] {
  const { statusCode, hops } = observed
  const redirects = Array.isArray(hops) ? hops.length - 1 : 0
  return [
    ...(typeof statusCode === 'number' ? [`HTTP ${statusCode}`] : []),
    ...(redirects > 0 ? [counted(redirects, 'redirect')] : []),
  ]
}
