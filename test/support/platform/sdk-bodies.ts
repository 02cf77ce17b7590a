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

/** The last part of the path under /v1/checks, and a body without its name and locations. */
export const SDK_CHECKS: [part: string, body: Record<string, unknown>][] = [
  [
    'api',
    {
      ...check,
      checkType: 'API',
      request: {
        ...httpRequest,
        method: 'GET',
        url: 'https://example.org/',
        assertions: [assertion('STATUS_CODE', 'EQUALS', '200')],
      },
    },
  ],
  ['browser', { ...check, checkType: 'BROWSER', script: 'await page.goto("https://x.test/")' }],
  ['multistep', { ...check, checkType: 'MULTI_STEP', script: 'test("x", async () => {})' }],
  [
    'url',
    {
      ...monitor,
      checkType: 'URL',
      request: {
        ...httpRequest,
        method: 'GET',
        url: 'https://example.org/',
        assertions: [assertion('STATUS_CODE', 'LESS_THAN', '400')],
      },
    },
  ],
  [
    'tcp',
    {
      ...monitor,
      checkType: 'TCP',
      runtimeId: null,
      request: {
        hostname: 'example.org',
        port: 25,
        assertions: [assertion('RESPONSE_TIME', 'LESS_THAN', '500')],
      },
    },
  ],
  [
    'dns',
    {
      ...monitor,
      checkType: 'DNS',
      request: { recordType: 'A', query: 'example.org', assertions: null },
    },
  ],
  [
    'icmp',
    {
      ...monitor,
      checkType: 'ICMP',
      request: { hostname: 'example.org', pingCount: null, assertions: null },
    },
  ],
  [
    'grpc',
    {
      ...monitor,
      checkType: 'GRPC',
      runtimeId: null,
      request: {
        url: 'example.org',
        port: 50_051,
        skipSSL: false,
        grpcConfig: { mode: 'HEALTH', tls: false },
        assertions: [assertion('GRPC_STATUS_CODE', 'EQUALS', '0')],
      },
    },
  ],
  [
    'traceroute',
    { ...monitor, checkType: 'TRACEROUTE', runtimeId: null, request: { url: 'example.org' } },
  ],
  [
    'ssl',
    {
      ...monitor,
      checkType: 'SSL',
      runtimeId: null,
      request: {
        sslConfig: { hostname: 'example.org', serverName: null, skipChainValidation: false },
      },
    },
  ],
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

/** A group without its name, as the first and the second version of the resource have it. */
export const SDK_GROUPS: [version: string, body: Record<string, unknown>][] = [
  [
    'v1',
    {
      activated: true,
      muted: false,
      runParallel: false,
      tags: null,
      locations: [],
      concurrency: 3,
      apiCheckDefaults: { url: '', basicAuth: { username: '', password: '' } },
      environmentVariables: null,
      useGlobalAlertSettings: false,
      alertSettings,
      createdAt: ZERO_DATE,
      updatedAt: ZERO_DATE,
      runtimeId: null,
      privateLocations: [],
      retryStrategy: null,
      doubleCheck: false,
    },
  ],
  [
    'v2',
    {
      activated: true,
      muted: false,
      runParallel: null,
      tags: null,
      locations: [],
      concurrency: 3,
      apiCheckDefaults: {
        url: 'https://example.org/',
        headers: null,
        queryParameters: null,
        assertions: [assertion('STATUS_CODE', 'EQUALS', '200')],
        basicAuth: { username: '', password: '' },
      },
      browserCheckDefaults: '',
      environmentVariables: null,
      useGlobalAlertSettings: null,
      alertSettings: null,
      setupSnippetId: null,
      tearDownSnippetId: null,
      localSetupScript: null,
      localTearDownScript: null,
      runtimeId: null,
      privateLocations: [],
      retryStrategy: 'FALLBACK',
      createdAt: ZERO_DATE,
      updatedAt: ZERO_DATE,
    },
  ],
]
