// The agent's settings: every default, every bound, and all problems reported at once.
import { tmpdir } from 'node:os'
import { describe, expect, test } from 'vitest'
import { readAgentConfig, VARIABLES } from '../../src/agent/config.ts'

const FILE = { MONITORS_FILE: 'monitors.yaml' }
const read = (env: Record<string, string>, isTTY = false) =>
  readAgentConfig({ env, stdout: { isTTY } })
const variables = (env: Record<string, string>) =>
  read(env).problems.map(({ variable }) => variable)

test('a monitors file is all that is needed', () => {
  const { config, problems, warnings } = read(FILE)
  expect([problems, warnings]).toEqual([[], []])
  expect(config).toEqual({
    monitorsFile: 'monitors.yaml',
    location: 'local',
    image: 'agent',
    workRoot: tmpdir(),
    scriptIsolation: 'require',
    scriptUserId: 64_200,
    toolsDir: expect.stringMatching(/\/vedette\/tools$/),
    healthPort: 8081,
    jobConcurrency: 1,
    uptimeConcurrency: 256,
    drainMs: 25_000,
    spoolBytesMax: 256 * 1024 * 1024,
    logLevel: 'info',
    logResults: 'changes',
    externalObservability: true,
    formerApiKeys: [],
    noProxy: [],
    useOsResolver: false,
    blockedNetworks: [],
    allowedNetworks: [],
    scrubHeaders: [],
  })
})

const KEY = 'pl_1234567890'
const KEYS = [KEY, 'pl_abcdefghij']
const NETWORKS = ['1.0.0.0/8', 'fd00::/8']
const HTTP = { HTTP_PROXY: 'http://p:1' }
const Q = 'http://q:1'
const AT = { PLATFORM_URL: 'https://p.example' }

describe('values', () => {
  test.each<[string, Record<string, string>, Record<string, unknown>]>([
    ['levels in the old spelling', { LOG_LEVEL: 'LOG' }, { logLevel: 'info' }],
    ['levels in any case', { LOG_LEVEL: 'Debug' }, { logLevel: 'debug' }],
    ['drain in milliseconds', { DRAIN_SECONDS: '0' }, { drainMs: 0 }],
    ['spool with a unit', { SPOOL_BYTES_MAX: '1GiB' }, { spoolBytesMax: 2 ** 30 }],
    ['observability off', { EXTERNAL_OBSERVABILITY: 'off' }, { externalObservability: false }],
    ['former keys', { API_KEY_PREVIOUS: `${KEY} pl_abcdefghij` }, { formerApiKeys: KEYS }],
    ['networks', { BLOCKED_NETWORKS: '1.0.0.0/8, fd00::/8' }, { blockedNetworks: NETWORKS }],
    ['HTTP_PROXY alone', HTTP, { platformProxyUrl: 'http://p:1' }],
    ['HTTPS_PROXY first', { ...HTTP, HTTPS_PROXY: Q }, { platformProxyUrl: Q }],
    ['proxies in lower case', { https_proxy: Q }, { platformProxyUrl: Q }],
  ])('%s', (_, env, expected) => {
    const { config, problems } = read({ ...FILE, ...env })
    expect(problems).toEqual([])
    expect(config).toMatchObject(expected)
  })

  test('on a terminal all results are logged by default', () => {
    expect(read(FILE, true).config.logResults).toBe('all')
    expect(read({ ...FILE, LOG_RESULTS: 'changes' }, true).config.logResults).toBe('changes')
  })
})

describe('problems', () => {
  test.each([
    ['AGENT_HEALTH_PORT', '65536'],
    ['JOB_CONCURRENCY', '11'],
    ['UPTIME_CONCURRENCY', 'many'],
    ['DRAIN_SECONDS', '-1'],
    ['SPOOL_BYTES_MAX', '10'],
    ['LOG_LEVEL', 'LOUD'],
    ['LOG_RESULTS', 'some'],
    ['EXTERNAL_OBSERVABILITY', 'perhaps'],
    ['API_KEY', 'sk_1234567890'],
    ['API_KEY_PREVIOUS', `${KEY},sk_1234567890`],
    ['PLATFORM_URL', 'platform.example'],
    ['SENTRY_DSN', 'x'],
    ['HTTPS_PROXY', 'socks5://p:1'],
    ['BLOCKED_NETWORKS', '10.0.0.0/33'],
    ['ALLOWED_NETWORKS', 'everything'],
    ['SCRUB_HEADERS', 'x:y'],
    ['LOCATION', 'Berlin Office'],
    ['NODE_EXTRA_CA_CERTS', '/nope.pem'],
    ['USE_OS_DNS_RESOLVER', '2'],
  ])('%s=%s is one', (name, value) => {
    expect(variables({ ...FILE, [name]: value })).toEqual([name])
  })

  test('are all reported at once', () => {
    const wrong = { JOB_CONCURRENCY: '99', LOG_LEVEL: 'x' }
    expect(variables(wrong)).toEqual([...Object.keys(wrong), 'MONITORS_FILE'])
  })

  test.each<[string, Record<string, string>, string[]]>([
    ['nothing to run', {}, ['MONITORS_FILE']],
    ['a key alone', { API_KEY: KEY }, ['PLATFORM_URL']],
    ['an address alone', AT, ['API_KEY']],
    ['a wrong key', { API_KEY: 'wrong', ...AT }, ['API_KEY']],
    ['nothing where both are there', { API_KEY: KEY, ...AT }, []],
  ])('%s', (_, env, expected) => expect(variables(env)).toEqual(expected))
})

test('a key and an address are all that is needed, too', () => {
  const { config, warnings } = read({ API_KEY: KEY, ...AT, DATA_DIR: '/data' })
  expect(warnings).toEqual([])
  expect(config).toMatchObject({ apiKey: KEY, platformUrl: AT.PLATFORM_URL, dataDir: '/data' })
})

test('a key in addition to a file has no effect, and a warning says so', () => {
  const { warnings } = read({ ...FILE, API_KEY: KEY })
  expect(warnings.map(({ variable }) => variable)).toEqual(['API_KEY'])
})

test('secrets are returned for scrubbing', () => {
  const { secrets } = read({
    ...FILE,
    API_KEY: KEY,
    API_KEY_PREVIOUS: 'pl_abcdefghij',
    HTTPS_PROXY: 'http://u:p%40ss@h:1',
    SENTRY_DSN: 'https://dsnkey@s.example/1',
  })
  expect(secrets.toSorted()).toEqual(['dsnkey', 'p%40ss', 'p@ss', ...KEYS])
})

const SECRETS = ['API_KEY', 'API_KEY_PREVIOUS', 'SENTRY_DSN', 'HTTPS_PROXY']
test.each(SECRETS)('a %s that is invalid is not shown', (name) => {
  const { problems } = read({ ...FILE, [name]: 'sk_1234567890' })
  expect(problems).toHaveLength(1)
  expect(JSON.stringify(problems)).not.toContain('sk_1234567890')
})

test('defaults are shown with their unit', () => {
  expect(VARIABLES.find(({ name }) => name === 'DRAIN_SECONDS')?.default).toBe('25 s')
})
