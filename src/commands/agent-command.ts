// `vedette agent`: the agent as in production.
import { createAgent } from '../agent/agent.ts'
import { type ConfigReading, VARIABLES } from '../agent/config.ts'
import { formatProblem } from '../agent/monitors-file-problems.ts'
import { createFileSource } from '../agent/monitors-file-source.ts'
import { createResultLog } from '../agent/result-log.ts'
import { VERSION } from '../contract/versions.ts'
import { type Command, EXIT_CONFIGURATION } from '../host/command-line.ts'
import { environmentHelp } from '../host/environment-help.ts'
import { isForPeople, mayColour } from '../host/log.ts'
import { ListenError } from '../host/serve.ts'
import { onSignals } from '../host/signals.ts'
import { endOnUncaught } from '../host/uncaught.ts'
import { MONITOR_TYPES } from '../monitors/registry.ts'
import { complain, type FileToRun } from './monitors-to-run.ts'
import { dialFrom, logOf, settings } from './settings.ts'

const { env, stdout, stderr } = process

/** Runs the agent on a monitors file until it is told to stop; resolves with the exit code. */
export async function runAgent(reading: ConfigReading, file: FileToRun): Promise<number> {
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
  const agent = createAgent({
    config,
    source,
    sink: createResultLog({
      log,
      which: config.logResults,
      pretty: isForPeople(stdout),
      colour: mayColour(stdout, env),
    }),
    types: MONITOR_TYPES,
    dial: dialFrom(config),
    log,
  })
  let isStopping = false
  // Before the file is read, which can take seconds.
  const offSignals = onSignals({
    stop: (signal) => {
      isStopping = true
      log.info({ signal }, 'told to stop')
      void agent.stop()
    },
    reload: () => source.reload(),
  })
  for (const { message } of reading.warnings) log.warn(message)
  try {
    const first = await source.read()
    if (!first.ok && !isStopping) return complain(first)
    if (!isStopping) await agent.start()
    if (!isStopping) log.info({ version: VERSION, url: agent.url() }, 'agent started')
    await agent.stopped
    return 0
  } catch (error) {
    if (!(error instanceof ListenError)) throw error
    stderr.write(`vedette: ${error.message}\n`)
    return EXIT_CONFIGURATION
  } finally {
    offSignals()
  }
}

async function agentCommand(): Promise<number> {
  const reading = settings()
  if (typeof reading === 'number') return reading
  return runAgent(reading, { path: reading.config.monitorsFile ?? '', variables: [] })
}

/** `vedette agent`. */
export const AGENT_COMMAND: Command = {
  name: 'agent',
  summary: 'Run the agent as in production; settings come from the environment',
  description:
    'Runs monitors on their timetable until SIGTERM, which drains: running jobs are finished and\n' +
    'delivered, the exit code is 0. A second signal ends it at once. SIGHUP reads the monitors file again;\n' +
    'so does a change of it. Exit code 2: something is wrong with the settings or the file.',
  more: () => environmentHelp(VARIABLES),
  examples: [
    ['MONITORS_FILE=monitors.yaml vedette agent', 'runs the monitors of a file'],
    ['curl localhost:8081/-/readiness', 'asks whether it is ready, and why not'],
    ['curl localhost:8081/metrics', 'shows what Prometheus reads'],
  ],
  run: agentCommand,
}
