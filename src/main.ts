// The command line of Vedette. Wiring only: which part is handed to which.
import { fileURLToPath } from 'node:url'
import { exitCodeOf, runOnce } from './agent/check.ts'
import { createClock } from './agent/clock.ts'
import {
  type AgentConfig,
  type ConfigReading,
  readAgentConfig,
  readMonitorsFilePath,
  VARIABLES,
} from './agent/config.ts'
import { formatProblem, type Problem } from './agent/monitors-file-problems.ts'
import { createFileSource, snapshotOf } from './agent/monitors-file-source.ts'
import { type LoadedFile, type ReadFile, readMonitorsFile } from './agent/monitors-file.ts'
import { junitOf } from './agent/report-junit.ts'
import { tableOf } from './agent/report-table.ts'
import { createResultLog } from './agent/result-log.ts'
import { type AgentEnds, runAgent } from './agent/run-agent.ts'
import { createRunner } from './agent/runner.ts'
import { createScrubber } from './agent/scrub.ts'
import { surroundingsOf } from './agent/surroundings.ts'
import type { Monitor, Variable } from './contract/monitor.ts'
import type { Result } from './contract/result.ts'
import { VERSION } from './contract/versions.ts'
import { EXAMPLE_MONITORS, type ExampleSite, startExampleSite } from './examples/site.ts'
import {
  type Arguments,
  type Command,
  EXIT_CONFIGURATION,
  runCommandLine,
} from './host/command-line.ts'
import { type Environment, type EnvironmentProblem, problemText } from './host/env.ts'
import { environmentHelp } from './host/environment-help.ts'
import { createLog, isForPeople, type Log, mayColour } from './host/log.ts'
import { onSignals } from './host/signals.ts'
import { endOnUncaught } from './host/uncaught.ts'
import { createDialler } from './monitors/dialler.ts'
import { createNetworkPolicy } from './monitors/network-policy.ts'
import { MONITOR_TYPES } from './monitors/registry.ts'
import { createResolver } from './monitors/resolver.ts'
import { platformCommands } from './platform/commands.ts'

/** Time for the last lines to be read after everything is done. */
const LAST_WORDS_MS = 2000

const env = process.env
const { stdout, stderr } = process

/** Runs with these settings; a number is the exit code when the settings are no good. */
function settings(changes: Environment = {}): ConfigReading | number {
  const reading = readAgentConfig({ env: { ...env, ...changes }, stdout })
  return reading.problems.length === 0 ? reading : refuse(reading.problems)
}

function refuse(problems: readonly EnvironmentProblem[]): number {
  stderr.write(`vedette: ${problemText(problems)}`)
  return EXIT_CONFIGURATION
}

function logOf({ config, secrets }: ConfigReading): Log {
  const scrubber = createScrubber({ secrets, headers: config.scrubHeaders })
  return createLog({
    level: config.logLevel,
    pretty: isForPeople(stdout),
    colour: mayColour(stdout, env),
    scrubFields: (fields) => scrubber.value(fields),
    scrubLine: (line) => scrubber.text(line),
  })
}

/** Makes the way out to the network, as the settings allow it. */
function dialFrom(config: AgentConfig) {
  const policy = createNetworkPolicy({
    blocked: [...config.blockedNetworks],
    allowed: [...config.allowedNetworks],
  })
  const resolver = createResolver({ useOsResolver: config.useOsResolver })
  return (proxyUrl: string | undefined) => createDialler({ policy, resolver, proxyUrl })
}

interface FileToRun {
  path: string
  variables: readonly Variable[]
}

/** Runs the agent until it is told to stop; resolves with the exit code. */
function run(reading: ConfigReading, log: Log, ends: AgentEnds): Promise<number> {
  const dial = dialFrom(reading.config)
  const complainOf = (text: string) => stderr.write(text)
  return runAgent({ reading, log, ...ends, types: MONITOR_TYPES, dial, complain: complainOf })
}

/** Runs the agent on a monitors file. */
function runOnFile(reading: ConfigReading, file: FileToRun): Promise<number> {
  const { config } = reading
  const log = logOf(reading)
  endOnUncaught(log)
  const source = createFileSource({
    ...file,
    env,
    types: MONITOR_TYPES,
    location: (named) => named ?? config.location,
    onWarnings: (warnings) => warnings.forEach((one) => log.warn(formatProblem(one))),
  })
  const sink = createResultLog({
    log,
    which: config.logResults,
    pretty: isForPeople(stdout),
    colour: mayColour(stdout, env),
  })
  return run(reading, log, {
    source,
    sink,
    async prepare() {
      const first = await source.read()
      return first.ok ? undefined : complain(first)
    },
    reload: () => source.reload(),
  })
}

/** Runs the agent on what a platform says. */
async function runOnPlatform(
  reading: ConfigReading,
  to: { apiKey: string; platformUrl: string },
): Promise<number> {
  const log = logOf(reading)
  endOnUncaught(log)
  const clock = createClock()
  const { openPlatformParts } = await import('./agent/platform-agent.ts')
  const settings = { ...reading.config, ...to }
  const checkTypes = MONITOR_TYPES.keys()
  const parts = await openPlatformParts({ settings, checkTypes, clock, log })
  try {
    return await run(reading, log, { ...parts, clock })
  } finally {
    parts.close()
  }
}

/** Prints what is wrong with a monitors file. */
function complain(read: ReadFile & { ok: false }): number {
  stderr.write(read.problems.map((one) => `${formatProblem(one)}\n`).join(''))
  const count = read.problems.length === 1 ? '1 problem' : `${read.problems.length} problems`
  stderr.write(`vedette: ${count} in the monitors file\n`)
  return EXIT_CONFIGURATION
}

function warn(warnings: readonly Problem[]): void {
  for (const one of warnings) stderr.write(`warning: ${formatProblem(one)}\n`)
}

/** The file that a command names, or that the environment does, or the example beside its site. */
async function withFile(
  named: string | undefined,
  use: (file: FileToRun) => Promise<number>,
): Promise<number> {
  const { path, problems } =
    named === undefined ? readMonitorsFilePath(env) : { path: named, problems: [] }
  if (problems.length > 0) return refuse(problems)
  if (path !== undefined && path !== '') return use({ path, variables: [] })
  const site: ExampleSite = await startExampleSite()
  try {
    return await use({ path: fileURLToPath(EXAMPLE_MONITORS), variables: site.variables })
  } finally {
    await site.close()
  }
}

/** Puts a file that was found in the place of whatever the environment names. */
const onlyFile = ({ path }: FileToRun): Environment => ({
  MONITORS_FILE: path,
  MONITORS_FILE_FILE: undefined,
})

async function agentCommand(): Promise<number> {
  const reading = settings()
  if (typeof reading === 'number') return reading
  const { monitorsFile, apiKey, platformUrl } = reading.config
  if (monitorsFile === undefined && apiKey !== undefined && platformUrl !== undefined) {
    return runOnPlatform(reading, { apiKey, platformUrl })
  }
  return runOnFile(reading, { path: monitorsFile ?? '', variables: [] })
}

async function startCommand(): Promise<number> {
  const isChosen = [env['LOG_RESULTS'], env['LOG_RESULTS_FILE']].some((one) => (one ?? '') !== '')
  return withFile(undefined, (file) => {
    const reading = settings({ ...onlyFile(file), ...(isChosen ? {} : { LOG_RESULTS: 'all' }) })
    return typeof reading === 'number' ? Promise.resolve(reading) : runOnFile(reading, file)
  })
}

async function validateCommand(args: Arguments): Promise<number> {
  return withFile(args.positionals[0], async (file) => {
    const read = await readMonitorsFile(file.path, env, MONITOR_TYPES, file.variables)
    if (!read.ok) return complain(read)
    warn(read.file.warnings)
    const { length } = read.file.monitors
    stdout.write(`${file.path}: ${length} monitor${length === 1 ? '' : 's'}, no problem\n`)
    return 0
  })
}

async function checkCommand(args: Arguments): Promise<number> {
  if (args.on('json') && args.on('junit')) {
    stderr.write('vedette check: --json and --junit exclude each other\n')
    return EXIT_CONFIGURATION
  }
  return withFile(args.positionals[0], async (file) => {
    const reading = settings(onlyFile(file))
    if (typeof reading === 'number') return reading
    const read = await readMonitorsFile(file.path, env, MONITOR_TYPES, file.variables)
    if (!read.ok) return complain(read)
    warn(read.file.warnings)
    const monitors = chosen(read.file.monitors, args)
    if (typeof monitors === 'string') {
      stderr.write(`vedette check: ${monitors}\n`)
      return EXIT_CONFIGURATION
    }
    const results = await runRound(reading.config, read.file, monitors, args.on('json'))
    if (args.on('junit')) stdout.write(junitOf(results))
    else if (!args.on('json')) stdout.write(tableOf(results, { colour: mayColour(stdout, env) }))
    return exitCodeOf(results)
  })
}

/** The monitors that the options choose, or a sentence on why there are none. */
function chosen(all: readonly Monitor[], args: Arguments): Monitor[] | string {
  const [only, tag] = [args.value('only'), args.value('tag')]
  const monitors = all.filter(
    (one) =>
      (only === undefined ? one.activated : one.id === only || one.name === only) &&
      (tag === undefined || one.tags.includes(tag)),
  )
  if (monitors.length > 0) return monitors
  if (only === undefined && tag === undefined) return 'the file has no activated monitor'
  const known = all.slice(0, 20).map((one) => one.id)
  return `no monitor matches; ids in the file: ${known.join(', ')}${all.length > 20 ? ', …' : ''}`
}

/** Runs the monitors once, with progress on a terminal; Ctrl-C cancels what is left. */
async function runRound(
  config: AgentConfig,
  file: LoadedFile,
  monitors: readonly Monitor[],
  json: boolean,
): Promise<Result[]> {
  const snapshot = snapshotOf(file, file.location ?? config.location)
  const runner = createRunner({
    types: MONITOR_TYPES,
    clock: createClock(),
    workRoot: config.workRoot,
    scrubHeaders: config.scrubHeaders,
  })
  const surroundings = surroundingsOf(snapshot, dialFrom(config))
  const stop = new AbortController()
  const offSignals = onSignals({ stop: () => stop.abort() })
  const progress = isForPeople(stderr)
  const results = await runOnce({
    monitors,
    run: (job, signal) => runner.run(job, surroundings, signal),
    concurrency: config.uptimeConcurrency,
    signal: stop.signal,
    onResult(result, done) {
      if (json) stdout.write(`${JSON.stringify(result)}\n`)
      if (progress) stderr.write(`\r\u001B[K${done}/${monitors.length} checked`)
    },
  })
  if (progress) stderr.write('\r\u001B[K')
  offSignals()
  return results
}

const FILE_HELP =
  'The file is the one named, or else MONITORS_FILE, or else the built-in example, which comes with a\n' +
  'small local site and needs no network.'

const variablesHelp = () => environmentHelp(VARIABLES)

const COMMANDS: Command[] = [
  {
    name: 'start',
    summary: 'Watch the example monitors, or those of MONITORS_FILE, with readable output',
    description: `Starts the agent at once, without any settings. ${FILE_HELP}\nStops on Ctrl-C.`,
    more: variablesHelp,
    examples: [
      ['vedette start', 'watches the built-in example'],
      ['MONITORS_FILE=monitors.yaml vedette start', 'watches your own'],
    ],
    run: startCommand,
  },
  {
    name: 'agent',
    summary: 'Run the agent as in production; settings come from the environment',
    description:
      'Runs monitors on their timetable until SIGTERM, which drains: running jobs are finished and\n' +
      'delivered, the exit code is 0. A second signal ends it at once. SIGHUP reads the monitors file again;\n' +
      'so does a change of it. With API_KEY and PLATFORM_URL it runs what the platform says.\n' +
      'Exit code 2: something is wrong with the settings or the file; 3: the key was revoked.',
    more: variablesHelp,
    examples: [
      ['MONITORS_FILE=monitors.yaml vedette agent', 'runs the monitors of a file'],
      ['API_KEY=pl_… PLATFORM_URL=https://… vedette agent', 'runs those of a platform'],
      ['curl localhost:8081/-/readiness', 'asks whether it is ready, and why not'],
      ['curl localhost:8081/metrics', 'shows what Prometheus reads'],
    ],
    run: agentCommand,
  },
  {
    name: 'check',
    summary: 'Run every monitor of a file once, now, and report',
    positionals: ['[file]'],
    description: `Runs every activated monitor once, with its retries, and prints a table. ${FILE_HELP}\nExit code 0: all passed or were degraded; 1: something failed; 2: the file or the settings are bad.`,
    options: {
      json: { help: 'print one result a line as JSON, as they come' },
      junit: { help: 'print JUnit XML for CI systems' },
      only: { value: '<id>', help: 'run this monitor alone, activated or not' },
      tag: { value: '<tag>', help: 'run monitors with this tag alone' },
    },
    examples: [
      ['vedette check', 'runs the built-in example'],
      ['vedette check monitors.yaml', 'runs your own'],
      ['vedette check monitors.yaml --json | jq .verdict', 'feeds another program'],
      ['vedette check monitors.yaml --only shop', 'runs one of them'],
    ],
    run: checkCommand,
  },
  {
    name: 'validate',
    summary: 'Read a monitors file and name every problem in it',
    positionals: ['[file]'],
    description: `Reads the file as the agent would and runs nothing. Every problem is named with its line, the\nvalue and the mend. ${FILE_HELP}\nExit code 0: the file is good; 2: it is not.`,
    examples: [['vedette validate monitors.yaml', 'checks a file before it is used']],
    run: validateCommand,
  },
  ...platformCommands({ env, stdout, stderr }),
]

/**
 * Output that cannot be written says nothing about the monitors: where the reader is gone (`| head -1`), the
 * exit code still tells the verdict, and an agent runs on; anything else, like a full disk, is named.
 */
function surviveOutputErrors(): void {
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') return
    stderr.write(`vedette: the output cannot be written: ${error.message}\n`)
    process.exit(EXIT_CONFIGURATION)
  })
  stderr.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') process.exit(EXIT_CONFIGURATION)
  })
}

surviveOutputErrors()
process.exitCode = await runCommandLine(
  {
    name: 'vedette',
    version: VERSION,
    summary: 'watches what no outside service can reach',
    commands: COMMANDS,
    epilogue:
      'First steps: vedette start, then vedette check monitors.yaml with a file of your own.',
    write: (text) => stdout.write(text),
    complain: (text) => stderr.write(text),
  },
  process.argv.slice(2),
)

// What is still being written, to a log whose reader stalls, may not keep the process for ever.
setTimeout(() => process.exit(), LAST_WORDS_MS).unref()
