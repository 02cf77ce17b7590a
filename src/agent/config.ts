// The agent's settings: one table of environment variables, one reader, all problems at once. Help and
// the README show the same table.
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decoded, urlSecrets } from '../contract/definition-secrets.ts'
import { isLocationName, LOCATION_NAME_RULE } from '../contract/schema/location-name.ts'
import { isForPeople, type Terminal } from '../process/log.ts'
import {
  type Environment,
  type EnvironmentProblem,
  type ReadText,
  type Values,
  type VariableText,
  readEnvironment,
  variableTexts,
} from '../process/env.ts'
import {
  anyText,
  byteCount,
  FAULT_REPORT_VARIABLES,
  proxyVariables,
  leastLevel,
  onOff,
  oneOf,
  readableFile,
  urlSetting,
  wholeNumber,
  nameList,
} from '../process/settings.ts'
import { networkProblem } from '../network/network-policy.ts'
import { toolsFolder } from '../scripts/toolchains.ts'

const MIB = 1024 * 1024

/** Every environment variable of the agent. */
export const VARIABLE_TABLE = {
  MONITORS_FILE: anyText({
    meaning: 'File with the monitors to run (YAML); the agent then needs no platform',
  }),
  LOCATION: anyText({
    meaning: 'Name of the agent’s location, part of every result; with a monitors file',
    shownDefault: 'local',
    problem: (name) =>
      isLocationName(name)
        ? undefined
        : { allowed: LOCATION_NAME_RULE, fix: 'write it like berlin-office' },
  }),
  API_KEY: anyText({
    meaning: 'Key of the private location, from the platform',
    secret: true,
    problem: (key) =>
      isLocationKey(key)
        ? undefined
        : { allowed: 'a private location key, pl_…', fix: 'copy all of it, without quotes' },
  }),
  API_KEY_PREVIOUS: nameList({
    meaning: 'Former values of API_KEY, to decrypt what they encrypted in DATA_DIR',
    secret: true,
    problem: (key) =>
      isLocationKey(key)
        ? undefined
        : { allowed: 'keys of private locations, pl_…', fix: 'copy all of each, without quotes' },
  }),
  PLATFORM_URL: urlSetting({
    meaning: 'Address of the platform',
    protocols: ['https:', 'http:'],
    example: 'https://monitoring.example.com',
  }),
  AGENT_HEALTH_PORT: wholeNumber({
    meaning: 'Port of readiness, liveness, health and metrics; 0 uses any free port',
    otherwise: 8081,
    min: 0,
    max: 65_535,
  }),
  AGENT_HEALTH_HOST: anyText({
    meaning: 'Address that this port is opened on',
    shownDefault: 'all',
  }),
  JOB_CONCURRENCY: wholeNumber({
    meaning: 'Browser, multistep and scripted checks and suites that run at the same time',
    otherwise: 1,
    min: 1,
    max: 10,
  }),
  UPTIME_CONCURRENCY: wholeNumber({
    meaning: 'Uptime checks (URL, API, TCP …) that run at the same time',
    otherwise: 256,
    min: 1,
    max: 10_000,
  }),
  DRAIN_SECONDS: wholeNumber({
    meaning: 'Time for running checks to end after SIGTERM; then they are cancelled',
    otherwise: 25,
    min: 0,
    max: 3600,
    unit: 's',
  }),
  DATA_DIR: anyText({
    meaning: 'Folder for stored data and work folders of the agent',
    shownDefault: 'the system’s folder for temporary files',
  }),
  TOOLS_DIR: anyText({
    meaning: 'Folder of the engines and runtimes that suites and scripts run on',
    shownDefault: '`DATA_DIR/tools`, else the user’s cache',
  }),
  CHROMIUM_PATH: anyText({
    meaning: 'The browser of browser checks and suites',
    shownDefault: 'the Chromium or Chrome of the system',
  }),
  SCRIPT_ISOLATION: oneOf<'require' | 'best'>({
    meaning:
      'Whether user code needs the full sandbox (require), or what the system supports (best)',
    otherwise: 'require',
    names: { require: 'require', best: 'best' },
  }),
  SCRIPT_USER_ID: wholeNumber({
    meaning: 'First of 256 user ids for user code, where the agent runs as root',
    otherwise: 64_200,
    min: 1000,
    max: 2_000_000_000,
  }),
  SPOOL_BYTES_MAX: byteCount({
    meaning: 'Results stored on disk while the platform is unreachable',
    shownDefault: '256MiB',
    otherwise: 256 * MIB,
    min: MIB,
    max: 1024 ** 4,
  }),
  LOG_LEVEL: leastLevel(),
  LOG_RESULTS: oneOf<'changes' | 'all' | undefined>({
    meaning: 'Results that are logged: all, or the first of each monitor and changes of verdict',
    shownDefault: 'all on a terminal, else changes',
    otherwise: undefined,
    names: { changes: 'changes', all: 'all' },
  }),
  ...FAULT_REPORT_VARIABLES,
  ...proxyVariables('Proxy to the platform and to SENTRY_DSN'),
  USE_OS_DNS_RESOLVER: onOff({
    meaning:
      'Resolve names through the operating system, which knows /etc/hosts and search domains',
    otherwise: false,
  }),
  BLOCKED_NETWORKS: nameList({
    meaning: 'Networks that no check may reach, besides metadata and link-local addresses',
    problem: networkFix,
  }),
  ALLOWED_NETWORKS: nameList({
    meaning: 'Networks that checks may reach although they are blocked',
    problem: networkFix,
  }),
  SCRUB_HEADERS: nameList({
    meaning: 'Headers whose values are scrubbed from results and logs, besides the usual ones',
    problem: (name) =>
      /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)
        ? undefined
        : { allowed: 'names of headers', fix: 'write them like x-internal-id, x-session' },
  }),
  VEDETTE_IMAGE: anyText({
    meaning: 'Build of the agent, reported to the platform; images set it themselves',
    shownDefault: 'agent',
    problem: (name) =>
      /^[a-z0-9-]{1,64}$/.test(name)
        ? undefined
        : { allowed: 'the name of an image', fix: 'leave it to the image' },
  }),
  NODE_EXTRA_CA_CERTS: readableFile({
    meaning:
      'File with further certificate authorities to trust (PEM); read by Node.js at its start',
    fromFile: false,
  }),
} as const

function isLocationKey(key: string): boolean {
  return /^pl_[A-Za-z0-9_-]{8,}$/.test(key)
}

function networkFix(text: string): { allowed: string; fix: string } | undefined {
  const problem = networkProblem(text)
  if (problem === undefined) return undefined
  return { allowed: 'networks, like 10.0.0.0/8 or fd00::/8', fix: problem }
}

/** The table for help and documentation, in its order. */
export const VARIABLES: readonly VariableText[] = variableTexts(VARIABLE_TABLE)

type Given = Values<typeof VARIABLE_TABLE>

/** The agent's settings, checked. */
export type AgentConfig = ReturnType<typeof configOf>

/** Settings, or their problems; warnings either way. */
export interface ConfigReading {
  config: AgentConfig
  /** Not empty: do not start. */
  problems: EnvironmentProblem[]
  warnings: EnvironmentProblem[]
  /** Values that no log line may show. */
  secrets: string[]
}

/** Where settings come from. */
export interface ConfigOrigin {
  env: Environment
  /** Decides what is logged by default. */
  stdout: Terminal
  readText?: ReadText
}

/** Reads and checks all settings of the agent. */
export function readAgentConfig(origin: ConfigOrigin): ConfigReading {
  const reading = readEnvironment(VARIABLE_TABLE, origin.env, origin.readText)
  const { values } = reading
  const warnings: EnvironmentProblem[] = []
  const bad = new Set(reading.problems.map(({ variable }) => variable))
  const problems = [...reading.problems, ...sourceProblems(values, bad)]
  if (values.MONITORS_FILE !== undefined && values.API_KEY !== undefined) {
    warnings.push({
      variable: 'API_KEY',
      message: 'MONITORS_FILE and API_KEY are both set; the monitors file is used, the key is not',
    })
  }
  return {
    config: configOf(values, origin),
    problems,
    warnings,
    secrets: secretsOf(values),
  }
}

/** The path of the monitors file from the environment, for commands that do not need one. */
export function readMonitorsFilePath(
  env: Environment,
  readText?: ReadText,
): { path: string | undefined; problems: EnvironmentProblem[] } {
  const { MONITORS_FILE } = VARIABLE_TABLE
  const { values, problems } = readEnvironment({ MONITORS_FILE }, env, readText)
  return { path: values.MONITORS_FILE, problems }
}

const { TOOLS_DIR, DATA_DIR } = VARIABLE_TABLE
const TOOLS_TABLE = { TOOLS_DIR, DATA_DIR }

/** The environment variables of commands that need engines and runtimes alone, for help. */
export const TOOLS_VARIABLES = variableTexts(TOOLS_TABLE)

/** The folder of engines and runtimes, or what is wrong with the settings. */
export function readToolsFolder(env: Environment): {
  folder: string
  problems: EnvironmentProblem[]
} {
  const { values, problems } = readEnvironment(TOOLS_TABLE, env)
  return { folder: toolsFolder(values.TOOLS_DIR, values.DATA_DIR, env), problems }
}

/** Problems of the choice between a file and a platform. */
function sourceProblems(values: Given, bad: ReadonlySet<string>): EnvironmentProblem[] {
  if (values.MONITORS_FILE !== undefined || bad.has('MONITORS_FILE')) return []
  const [hasKey, hasUrl] = (['API_KEY', 'PLATFORM_URL'] as const).map(
    (name) => values[name] !== undefined || bad.has(name),
  )
  if (hasKey === true && hasUrl === true) return []
  if (hasKey === true) {
    const message = 'PLATFORM_URL is not set: API_KEY also needs the address of the platform'
    return [{ variable: 'PLATFORM_URL', message }]
  }
  if (hasUrl === true) {
    const message =
      'API_KEY is not set: PLATFORM_URL also needs the key of the private location, pl_…'
    return [{ variable: 'API_KEY', message }]
  }
  const message =
    'MONITORS_FILE is not set: set it to the path of a file with the monitors to run, or set ' +
    'API_KEY and PLATFORM_URL to run those of a platform'
  return [{ variable: 'MONITORS_FILE', message }]
}

function configOf(values: Given, { env, stdout }: ConfigOrigin) {
  const byTerminal: 'all' | 'changes' = isForPeople(stdout) ? 'all' : 'changes'
  return {
    monitorsFile: values.MONITORS_FILE,
    location: values.LOCATION ?? 'local',
    apiKey: values.API_KEY,
    formerApiKeys: values.API_KEY_PREVIOUS,
    platformUrl: values.PLATFORM_URL,
    image: values.VEDETTE_IMAGE ?? 'agent',
    healthPort: values.AGENT_HEALTH_PORT,
    healthHost: values.AGENT_HEALTH_HOST,
    jobConcurrency: values.JOB_CONCURRENCY,
    uptimeConcurrency: values.UPTIME_CONCURRENCY,
    drainMs: values.DRAIN_SECONDS * 1000,
    dataDir: values.DATA_DIR,
    /** Where the folders of runs are made. */
    workRoot: values.DATA_DIR === undefined ? tmpdir() : join(values.DATA_DIR, 'work'),
    toolsDir: toolsFolder(values.TOOLS_DIR, values.DATA_DIR, env),
    chromiumPath: values.CHROMIUM_PATH,
    scriptIsolation: values.SCRIPT_ISOLATION,
    scriptUserId: values.SCRIPT_USER_ID,
    spoolBytesMax: values.SPOOL_BYTES_MAX,
    logLevel: values.LOG_LEVEL,
    logResults: values.LOG_RESULTS ?? byTerminal,
    externalObservability: values.EXTERNAL_OBSERVABILITY,
    sentryDsn: values.SENTRY_DSN,
    platformProxyUrl: values.HTTPS_PROXY ?? values.HTTP_PROXY,
    noProxy: values.NO_PROXY,
    useOsResolver: values.USE_OS_DNS_RESOLVER,
    blockedNetworks: values.BLOCKED_NETWORKS,
    allowedNetworks: values.ALLOWED_NETWORKS,
    scrubHeaders: values.SCRUB_HEADERS,
  }
}

function secretsOf(values: Given): string[] {
  const proxies = [values.HTTPS_PROXY, values.HTTP_PROXY].flatMap((url) => urlSecrets(url ?? ''))
  const keys = [values.API_KEY ?? '', ...values.API_KEY_PREVIOUS]
  const { username = '', password = '' } = URL.parse(values.SENTRY_DSN ?? '') ?? {}
  const dsn = [decoded(username), decoded(password)]
  return [...keys, ...dsn, ...proxies].filter((one) => one !== '')
}
