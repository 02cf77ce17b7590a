// Definitions as a typed client sends them: one structure for several types with all fields, zero values for unset
// fields, and null for empty lists and pointers.
import { SUITE_BUNDLE } from './bundles.ts'

/** So many fields with one value each. */
const fill = <Value>(value: Value, names: string): Record<string, Value> =>
  Object.fromEntries(names.split(' ').map((name) => [name, value]))

const ZERO_DATE = '0001-01-01T00:00:00Z'
const alertSettings = fill(
  {},
  'runBasedEscalation timeBasedEscalation reminders parallelRunFailureThreshold sslCertificates',
)
const unset = { edit: false, property: '', ...fill(0, 'order arrayIndex arraySelector') }
const assertion = (source: string, comparison: string, target: string) => ({
  ...unset,
  source,
  comparison,
  target,
})
const httpRequest = {
  ...fill('', 'method url body'),
  ...fill(false, 'followRedirects skipSSL'),
  ...fill(null, 'headers queryParameters assertions'),
}
const common = {
  ...fill(null, 'description groupId retryStrategy triggerIncident'),
  ...fill(false, 'muted runParallel useGlobalAlertSettings doubleCheck shouldFail'),
  frequency: 10,
  activated: true,
  locations: [],
}
/** The structure that API, browser and multistep checks share. */
const check = {
  ...common,
  ...fill('', 'id sslCheckDomain'),
  ...fill(0, 'degradedResponseTime maxResponseTime'),
  ...fill(null, 'environmentVariables runtimeId'),
  alertSettings,
  request: httpRequest,
  sslCheck: false,
  heartbeat: { period: 0, periodUnit: '', grace: 0, graceUnit: '', pingToken: '' },
  ...fill(ZERO_DATE, 'createdAt updatedAt'),
}
/** The common structure of uptime monitors. */
const monitor = { ...common, alertSettings, ...fill(ZERO_DATE, 'created_at updated_at') }

const httpGet = (expected: ReturnType<typeof assertion>) => ({
  ...httpRequest,
  method: 'GET',
  url: 'https://example.org/',
  assertions: [expected],
})
const host = { hostname: 'example.org' }
const isQuick = assertion('RESPONSE_TIME', 'LESS_THAN', '500')
const isGood = assertion('GRPC_STATUS_CODE', 'EQUALS', '0')
const grpcConfig = { mode: 'HEALTH', tls: false }
const grpc = { url: 'example.org', port: 50_051, skipSSL: false, grpcConfig, assertions: [isGood] }
const sslConfig = { ...host, serverName: null, skipChainValidation: false }
const suite = {
  ...fill(
    null,
    'environmentVariables playwrightVersion testCommand installCommand workingDir engine engineVersion',
  ),
  cacheHash: '',
  browsers: [],
  codeBundlePath: SUITE_BUNDLE,
}

const checks: Record<string, object> = {
  api: { ...check, request: httpGet(assertion('STATUS_CODE', 'EQUALS', '200')) },
  browser: { ...check, script: 'await page.goto("https://x.test/")' },
  multistep: { ...check, checkType: 'MULTI_STEP', script: 'test("x", async () => {})' },
  url: { ...monitor, request: httpGet(assertion('STATUS_CODE', 'LESS_THAN', '400')) },
  tcp: { ...monitor, runtimeId: null, request: { ...host, port: 25, assertions: [isQuick] } },
  dns: { ...monitor, request: { recordType: 'A', query: 'example.org', assertions: null } },
  icmp: { ...monitor, request: { ...host, pingCount: null, assertions: null } },
  grpc: { ...monitor, runtimeId: null, request: grpc },
  traceroute: { ...monitor, runtimeId: null, request: { url: 'example.org' } },
  ssl: { ...monitor, runtimeId: null, request: { sslConfig } },
  playwright: { ...monitor, ...suite },
}

/** A heartbeat, which has no location, without its name. */
export const SDK_HEARTBEAT = {
  checkType: 'HEARTBEAT',
  ...monitor,
  privateLocations: null,
  heartbeat: { period: 5, periodUnit: 'minutes', grace: 1, graceUnit: 'minutes', pingToken: '' },
}

/** The last part of the path under /v1/checks, and a body without its name and locations. */
export const SDK_CHECKS = Object.entries(checks).map(
  ([part, body]): [part: string, body: Record<string, unknown>] => [
    part,
    { checkType: part.toUpperCase(), ...body },
  ],
)

const group = {
  ...fill(null, 'tags environmentVariables runtimeId'),
  activated: true,
  muted: false,
  locations: [],
  privateLocations: [],
  concurrency: 3,
  ...fill(ZERO_DATE, 'createdAt updatedAt'),
}
const basicAuth = { username: '', password: '' }
const firstVersion = {
  ...fill(false, 'runParallel useGlobalAlertSettings doubleCheck'),
  apiCheckDefaults: { url: '', basicAuth },
  alertSettings,
  retryStrategy: null,
}
const secondVersion = {
  ...fill(null, 'runParallel useGlobalAlertSettings alertSettings setupSnippetId'),
  ...fill(null, 'tearDownSnippetId localSetupScript localTearDownScript'),
  apiCheckDefaults: {
    ...fill(null, 'headers queryParameters'),
    url: 'https://example.org/',
    basicAuth,
    assertions: [assertion('STATUS_CODE', 'EQUALS', '200')],
  },
  browserCheckDefaults: '',
  retryStrategy: 'FALLBACK',
}

/** A group without its name, as the first and the second version of the resource have it. */
export const SDK_GROUPS: [version: string, body: Record<string, unknown>][] = [
  ['v1', { ...group, ...firstVersion }],
  ['v2', { ...group, ...secondVersion }],
]
