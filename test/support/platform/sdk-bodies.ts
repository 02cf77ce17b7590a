// Definitions as a typed client sends them: one structure for several types with all fields, zero values for unset
// fields, and null for empty lists and pointers.

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

type Body = Record<string, unknown>

const url = 'https://example.org/'
const uptime = (checkType: string, request: object, more: object = {}): [string, Body] => [
  checkType.toLowerCase(),
  { ...monitor, checkType, request, ...more },
]
const alone = { runtimeId: null }

/** The last part of the path under /v1/checks, and a body without its name and locations. */
export const SDK_CHECKS: [part: string, body: Body][] = [
  [
    'api',
    {
      ...check,
      checkType: 'API',
      request: {
        ...httpRequest,
        method: 'GET',
        url,
        assertions: [assertion('STATUS_CODE', 'EQUALS', '200')],
      },
    },
  ],
  ['browser', { ...check, checkType: 'BROWSER', script: 'await page.goto("https://x.test/")' }],
  ['multistep', { ...check, checkType: 'MULTI_STEP', script: 'test("x", async () => {})' }],
  uptime('URL', {
    ...httpRequest,
    method: 'GET',
    url,
    assertions: [assertion('STATUS_CODE', 'LESS_THAN', '400')],
  }),
  uptime(
    'TCP',
    {
      hostname: 'example.org',
      port: 25,
      assertions: [assertion('RESPONSE_TIME', 'LESS_THAN', '500')],
    },
    alone,
  ),
  uptime('DNS', { recordType: 'A', query: 'example.org', assertions: null }),
  uptime('ICMP', { hostname: 'example.org', pingCount: null, assertions: null }),
  uptime(
    'GRPC',
    {
      url: 'example.org',
      port: 50_051,
      skipSSL: false,
      grpcConfig: { mode: 'HEALTH', tls: false },
      assertions: [assertion('GRPC_STATUS_CODE', 'EQUALS', '0')],
    },
    alone,
  ),
  uptime('TRACEROUTE', { url: 'example.org' }, alone),
  uptime(
    'SSL',
    { sslConfig: { hostname: 'example.org', serverName: null, skipChainValidation: false } },
    alone,
  ),
  [
    'playwright',
    {
      ...monitor,
      checkType: 'PLAYWRIGHT',
      environmentVariables: null,
      cacheHash: '',
      playwrightVersion: null,
      testCommand: null,
      installCommand: null,
      browsers: [],
      codeBundlePath: 'bundle.tar.gz',
      workingDir: null,
      engine: null,
      engineVersion: null,
    },
  ],
]

const basicAuth = { username: '', password: '' }
const group = {
  activated: true,
  muted: false,
  runParallel: false,
  tags: null,
  locations: [],
  concurrency: 3,
  apiCheckDefaults: { url: '', basicAuth },
  environmentVariables: null,
  useGlobalAlertSettings: false,
  alertSettings,
  createdAt: ZERO_DATE,
  updatedAt: ZERO_DATE,
  runtimeId: null,
  privateLocations: [],
  retryStrategy: null,
}

/** A group without its name, as the first and the second version of the resource have it. */
export const SDK_GROUPS: [version: string, body: Body][] = [
  ['v1', { ...group, doubleCheck: false }],
  [
    'v2',
    {
      ...group,
      runParallel: null,
      apiCheckDefaults: {
        url,
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
