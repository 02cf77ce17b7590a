// `vedette start`: the platform on its embedded database, an agent and monitors, all in one process. Agent and
// platform talk over HTTP, as they would on two machines.
import { readFileSync, watchFile, unwatchFile } from 'node:fs'
import { join } from 'node:path'
import type { ApplyTarget } from '../client/config.ts'
import { PlatformError } from '../client/command.ts'
import { type ConfigReading, readAgentConfig } from '../agent/config.ts'
import { type LoadedFile, readFileToApply } from '../agent/monitors-file/file.ts'
import { formatProblem } from '../agent/monitors-file/problems.ts'
import { VERSION } from '../contract/versions.ts'
import { EXIT } from '../process/exit-codes.ts'
import type { Environment } from '../process/env.ts'
import type { FaultReports } from '../process/faults/reports.ts'
import { isForPeople, type Log, mayColour } from '../process/log.ts'
import { paint } from '../process/pretty-line.ts'
import { portProblem, urlHost } from '../process/serve.ts'
import { onSignals } from '../process/signals.ts'
import { readPlatformConfig, type PlatformConfigReading } from '../platform/config.ts'
import { type Credentials, CredentialsError } from '../platform/accounts/first-account.ts'
import { Platform } from '../platform/platform.ts'
import { platformFaults } from '../platform/platform-faults.ts'
import { knownFault, platformLog } from '../platform/run-platform.ts'
import { runOnPlatform } from './agent-command.ts'
import { posterTo } from './fault-reports.ts'
import {
  applyInstallation,
  ensureLocation,
  type InstallationOptions,
  type LocalLocation,
} from './local-installation.ts'
import { complain, type FileToRun } from './monitors-to-run.ts'
import { refuse } from './settings.ts'

const { env, stdout, stderr } = process

/** Interval of the checks for a changed monitors file. */
const CHECK_INTERVAL_MS = 2_000
const DEFAULT_PORTS = [
  { variable: 'PORT', hostVariable: 'HOST', port: 3000 },
  { variable: 'AGENT_HEALTH_PORT', hostVariable: 'AGENT_HEALTH_HOST', port: 8081 },
] as const
/** Placeholder for the API key until it is created. */
const NO_KEY_YET = 'pl_not-yet-made'

interface Settings {
  platform: PlatformConfigReading
  agent: ConfigReading
}

/** Runs platform and agent until a stop signal; resolves with the exit code. */
export async function runEverything(file: FileToRun): Promise<number> {
  const given = await withFreePorts(env)
  const settings = readSettings(given)
  if (typeof settings === 'number') return settings
  const read = await readFileToApply(file.path, env, file.variables)
  if (!read.ok) return complain(read)
  let platform: Platform | undefined
  const faults = platformFaults(settings.platform, posterTo, () => platform?.database())
  const log = logOf(settings.platform, faults)
  let made: Credentials | undefined
  platform = new Platform({
    config: settings.platform.config,
    log,
    faults,
    onCredentials: (credentials) => (made = credentials),
  })
  const stop = new AbortController()
  const offSignals = onSignals({
    stop: () => {
      stop.abort()
      void platform?.stop()
    },
  })
  try {
    await platform.start()
    const url = platform.url()
    if (url === undefined) return 0
    const target = targetOf(url, made ?? credentialsFrom(settings.platform))
    return await runLocalAgent({ target, settings, file, loaded: read.file, log, stop, offSignals })
  } catch (error) {
    if (stop.signal.aborted) return 0
    const message = messageOf(error)
    if (message === undefined) throw error
    stderr.write(`vedette: ${message}\n`)
    return EXIT.configuration
  } finally {
    offSignals()
    await platform.stop()
  }
}

interface LocalAgentOptions {
  target: ApplyTarget
  settings: Settings
  file: FileToRun
  loaded: LoadedFile
  log: Log
  stop: AbortController
  /** Removes the signal handlers: the agent has its own. */
  offSignals(): void
}

async function runLocalAgent(options: LocalAgentOptions): Promise<number> {
  const { target, settings, file, loaded, log, stop } = options
  const { config } = settings.agent
  const slugName = loaded.location ?? config.location
  const dataDir = settings.platform.config.dataDir
  const location = await ensureLocation(target, slugName, dataDir)
  const installation = { target, path: file.path, slugName, signal: stop.signal }
  const problems = await applyInstallation(loaded, installation)
  if (problems.length > 0) return complain({ problems })
  const { apiKey } = location
  const { platformUrl } = target
  const reading: ConfigReading = {
    ...settings.agent,
    config: {
      ...config,
      dataDir: config.dataDir ?? dataDir,
      // The agent reaches the local platform without a proxy.
      noProxy: [...config.noProxy, new URL(platformUrl).host],
    },
    secrets: [...settings.agent.secrets, apiKey, target.apiKey],
  }
  // One at a time, so that the last read file wins.
  let applied = Promise.resolve()
  const applyAgain = () =>
    void (applied = applied.then(() => applyChanged(file, installation, log)))
  watchFile(file.path, { interval: CHECK_INTERVAL_MS, persistent: false }, applyAgain)
  if (stop.signal.aborted) return 0
  const keyIn = keyPlace(settings.platform)
  if (isForPeople(stdout)) stdout.write(screenOf({ target, location, keyIn, reading, loaded }))
  else log.info(startFacts(target, location, keyIn), 'everything started')
  // From here on the agent handles signals itself.
  const prepare = () => {
    options.offSignals()
    return Promise.resolve(stop.signal.aborted ? 0 : undefined)
  }
  try {
    return await runOnPlatform(reading, { apiKey, platformUrl }, { reload: applyAgain, prepare })
  } finally {
    unwatchFile(file.path, applyAgain)
    stop.abort()
    // An apply in progress removes its packed bundles first.
    await applied
  }
}

/** Applies a changed file; an invalid one changes nothing. */
async function applyChanged(
  file: FileToRun,
  installation: InstallationOptions,
  log: Log,
): Promise<void> {
  const { signal } = installation
  if (signal.aborted) return
  try {
    const read = await readFileToApply(file.path, env, file.variables)
    const problems = read.ok ? await applyInstallation(read.file, installation) : read.problems
    for (const one of problems) log.error(formatProblem(one))
    if (problems.length === 0) log.info({ file: file.path }, 'the monitors file was applied')
    else log.error('the monitors file is invalid; the previous monitors keep running')
  } catch (error) {
    if (signal.aborted) return
    const reason = messageOf(error)
    const why = reason === undefined ? { err: error } : { reason }
    log.error(why, 'the monitors file could not be applied')
  }
}

/** Where no port is set and the default one is in use, any free port is used. */
async function withFreePorts(given: Environment): Promise<Environment> {
  const chosen: Record<string, string | undefined> = { ...given }
  for (const { variable, hostVariable, port } of DEFAULT_PORTS) {
    const host = given[hostVariable] || undefined
    const isTaken = !isSet(given, variable) && (await portProblem(port, host)) !== undefined
    if (isTaken) chosen[variable] = '0'
  }
  return chosen
}

/** Whether the user has set the variable, or the file of its value. */
function isSet(given: Environment, name: string): boolean {
  return [given[name], given[`${name}_FILE`]].some((one) => (one ?? '') !== '')
}

function readSettings(given: Environment): Settings | number {
  const platform = readPlatformConfig(given)
  const agent = readAgentConfig({
    env: {
      ...given,
      MONITORS_FILE: undefined,
      MONITORS_FILE_FILE: undefined,
      API_KEY: NO_KEY_YET,
      API_KEY_FILE: undefined,
      PLATFORM_URL: 'http://127.0.0.1',
      PLATFORM_URL_FILE: undefined,
      ...(isSet(given, 'LOG_RESULTS') ? {} : { LOG_RESULTS: 'all' }),
    },
    stdout,
  })
  const problems = [...platform.problems, ...agent.problems]
  const named = new Map(problems.map((one) => [one.variable, one]))
  return named.size > 0 ? refuse([...named.values()]) : { platform, agent }
}

/** The platform's log. On a terminal it has only warnings and errors, so that the agent's results stand out. */
function logOf(reading: PlatformConfigReading, faults?: FaultReports): Log {
  const isQuiet = isForPeople(stdout) && !isSet(env, 'LOG_LEVEL')
  const config = { ...reading.config, ...(isQuiet && { logLevel: 'warn' as const }) }
  return platformLog({ ...reading, config }, { env, stdout }, faults)
}

/** Credentials of the environment, or those stored by an earlier start. Throws CredentialsError. */
function credentialsFrom({ config }: PlatformConfigReading): Credentials {
  const { accountId, adminApiKey, dataDir } = config
  if (accountId !== undefined && adminApiKey !== undefined) return { accountId, adminApiKey }
  const path = join(dataDir, 'credentials.json')
  try {
    const stored = JSON.parse(readFileSync(path, 'utf8')) as Credentials
    return {
      accountId: accountId ?? stored.accountId,
      adminApiKey: adminApiKey ?? stored.adminApiKey,
    }
  } catch {
    throw new CredentialsError(
      `the key of the account is not in ${path}; set ACCOUNT_ID, and ADMIN_API_KEY ` +
        'to a key that `vedette keys create` makes',
    )
  }
}

function targetOf(url: string, { accountId, adminApiKey }: Credentials): ApplyTarget {
  return {
    platformUrl: new URL(url).origin,
    accountId,
    apiKey: adminApiKey,
    keyFix: 'set ADMIN_API_KEY to an active Admin key, or write it into credentials.json',
    proxyUrl: undefined,
    noProxy: [],
  }
}

function messageOf(error: unknown): string | undefined {
  if (error instanceof PlatformError) return error.message
  return knownFault(error)?.message
}

/** The file that holds the Admin key, or the variable that gave it. */
function keyPlace({ config: { adminApiKey, dataDir } }: PlatformConfigReading): string {
  return adminApiKey === undefined ? join(dataDir, 'credentials.json') : 'ADMIN_API_KEY'
}

/** The same as the screen for a log: where everything is, without any key. */
function startFacts(target: ApplyTarget, { slugName, keyFile }: LocalLocation, keyIn: string) {
  const { platformUrl: url, accountId: account } = target
  const docs = `${url}/docs`
  return { version: VERSION, url, docs, account, keyIn, location: slugName, agentKeyIn: keyFile }
}

interface ScreenFacts {
  target: ApplyTarget
  location: LocalLocation
  /** The place of the Admin key. */
  keyIn: string
  reading: ConfigReading
  loaded: LoadedFile
}

/** The start screen: addresses, credentials and the location. */
function screenOf({ target, location, keyIn, reading, loaded }: ScreenFacts): string {
  const colour = mayColour(stdout, env)
  const { platformUrl, accountId, apiKey } = target
  const { healthPort, healthHost } = reading.config
  const monitors = loaded.monitors.length
  const rows: (readonly [string, string])[] = [
    ['API', `${platformUrl}/v1   documentation ${platformUrl}/docs`],
    ['Account', `${accountId}   (header X-Service-Account)`],
    ['Admin key', `${apiKey.slice(0, 7)}…${apiKey.slice(-4)}   complete in ${keyIn}`],
    ['Location', `${location.slugName}   the key of its agents is in ${location.keyFile}`],
    ...(healthPort === 0
      ? []
      : [['Agent', `http://${urlHost(healthHost)}:${healthPort}/health   and /metrics`] as const]),
  ]
  return [
    '',
    paint(colour, 'green', `Vedette ${VERSION} watches ${monitors} monitors. Ctrl-C stops it.`),
    '',
    ...rows.map(([name, text]) => `  ${name.padEnd(10)} ${text}`),
    '',
    '  Results, newest last:',
    '',
    '',
  ].join('\n')
}
