// Definitions as a typed client sends them: one structure for several types with all fields, zero values for unset
// fields, and null for empty lists and pointers.
import { SUITE_BUNDLE } from './bundles.ts'

const ZERO_DATE = '0001-01-01T00:00:00Z'
const alertSettings = {
  runBasedEscalation: {},
  timeBasedEscalation: {},
  reminders: {},
  parallelRunFailureThreshold: {},
  sslCertificates: {},
}
const assertion = (source: string, comparison: string, target: string) => ({
  edit: false,
  order: 0,
  arrayIndex: 0,
  arraySelector: 0,
  source,
  property: '',
  comparison,
  target,
})
const httpRequest = {
  method: '',
  url: '',
  followRedirects: false,
  skipSSL: false,
  body: '',
  headers: null,
  queryParameters: null,
  assertions: null,
}

const common = {
  description: null,
  frequency: 10,
  activated: true,
  muted: false,
  runParallel: false,
  locations: [],
  useGlobalAlertSettings: false,
  groupId: null,
  doubleCheck: false,
  shouldFail: false,
  retryStrategy: null,
  triggerIncident: null,
}
/** The structure that API, browser and multistep checks share. */
const check = {
  ...common,
  id: '',
  degradedResponseTime: 0,
  maxResponseTime: 0,
  environmentVariables: null,
  sslCheckDomain: '',
  alertSettings,
  request: httpRequest,
  heartbeat: { period: 0, periodUnit: '', grace: 0, graceUnit: '', pingToken: '' },
  createdAt: ZERO_DATE,
  updatedAt: ZERO_DATE,
  runtimeId: null,
  sslCheck: false,
}
/** The common structure of uptime monitors. */
const monitor = { ...common, alertSettings, created_at: ZERO_DATE, updated_at: ZERO_DATE }

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
  environmentVariables: null,
  cacheHash: '',
  playwrightVersion: null,
  testCommand: null,
  installCommand: null,
  browsers: [],
  codeBundlePath: SUITE_BUNDLE,
  workingDir: null,
  engine: null,
  engineVersion: null,
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
  activated: true,
  muted: false,
  tags: null,
  locations: [],
  concurrency: 3,
  environmentVariables: null,
  runtimeId: null,
  privateLocations: [],
  createdAt: ZERO_DATE,
  updatedAt: ZERO_DATE,
}
const basicAuth = { username: '', password: '' }

/** A group without its name, as the first and the second version of the resource have it. */
export const SDK_GROUPS: [version: string, body: Record<string, unknown>][] = [
  [
    'v1',
    {
      ...group,
      runParallel: false,
      apiCheckDefaults: { url: '', basicAuth },
      useGlobalAlertSettings: false,
      alertSettings,
      retryStrategy: null,
      doubleCheck: false,
    },
  ],
  [
    'v2',
    {
      ...group,
      runParallel: null,
      apiCheckDefaults: {
        url: 'https://example.org/',
        headers: null,
        queryParameters: null,
        assertions: [assertion('STATUS_CODE', 'EQUALS', '200')],
        basicAuth,
      },
      browserCheckDefaults: '',
      useGlobalAlertSettings: null,
      alertSettings: null,
      setupSnippetId: null,
      tearDownSnippetId: null,
      localSetupScript: null,
      localTearDownScript: null,
      retryStrategy: 'FALLBACK',
    },
  ],
]
