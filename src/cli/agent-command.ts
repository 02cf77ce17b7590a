// `vedette agent`: the agent as in production, on the monitors of a platform or a file.
import { createClock } from '../agent/schedule/clock.ts'
import { type AgentConfig, type ConfigReading, VARIABLES } from '../agent/config.ts'
import { formatProblem } from '../agent/monitors-file/problems.ts'
import { createFileSource } from '../agent/monitors-file/source.ts'
import type { PlatformParts } from '../agent/platform/agent.ts'
import { createDataFolder } from '../agent/data-folder.ts'
import type { OwnProblem } from '../agent/own-problem.ts'
import type { PlatformLink } from '../agent/platform/link.ts'
import { createResultLog } from '../agent/result-log.ts'
import { type AgentEnds, runAgent } from '../agent/run-agent.ts'
import { loggingSink, openSlotLedger, type SlotLedger } from '../agent/schedule/slot-ledger.ts'
import type { Command } from '../process/command-line.ts'
import { DATA_DIR_CODE, diskProblem } from '../process/disk-problem.ts'
import { createLineWriter } from '../process/line-writer.ts'
import { DROPPED, isForPeople, type Log, mayColour } from '../process/log.ts'
import { endOnUncaught } from '../process/faults/uncaught.ts'
import { MONITOR_TYPES } from '../monitors/registry.ts'
import { agentFaults } from './fault-reports.ts'
import { complain as complainOf, type FileToRun } from './monitors-to-run.ts'
import { scriptHost } from './script-host.ts'
import { dialFrom, logOf, settings } from './settings.ts'

const { env, stdout, stderr } = process

/** Runs the agent until a stop signal; resolves with the exit code. */
function run(
  reading: ConfigReading,
  log: Log,
  ends: AgentEnds,
  link?: PlatformLink,
): Promise<number> {
  const { config } = reading
  const scripts = scriptHost(config, { log, ...(link && { link }) })
  const complain = (text: string) => stderr.write(text)
  const common = { reading, log, types: MONITOR_TYPES, dial: dialFrom(config), scripts, complain }
  return runAgent({ ...ends, ...common }).finally(() => scripts.close())
}

const resultLogOf = ({ logResults }: AgentConfig, log: Log) =>
  createResultLog({
    log,
    which: logResults,
    pretty: isForPeople(stdout),
    colour: mayColour(stdout, env),
  })

/** Runs the agent on a monitors file until a stop signal; resolves with the exit code. */
async function runOnFile(reading: ConfigReading, file: FileToRun): Promise<number> {
  const { config } = reading
  const faults = agentFaults(reading)
  const writer = createLineWriter({
    isPrompt: config.dataDir !== undefined,
    onDropped: (lines) => log.warn({ lines }, DROPPED),
  })
  const log = logOf(reading, faults, writer)
  endOnUncaught(log, faults)
  const dataFolder = createDataFolder(config, log)
  const ledger = await ledgerFor(config, file.path, dataFolder, log)
  const source = createFileSource({
    ...file,
    env,
    types: MONITOR_TYPES,
    location: config.location,
    onWarnings: (warnings) => warnings.forEach((one) => log.warn(formatProblem(one))),
  })
  return run(reading, log, {
    source,
    sink: loggingSink(resultLogOf(config, log), ledger, writer),
    ledger,
    dataFolder,
    faults,
    async prepare() {
      const first = await source.read()
      return first.ok ? undefined : complainOf(first)
    },
    reload: () => source.reload(),
    // The last lines may still be written, and their records follow them.
  }).finally(() => writer.onWritten(() => ledger?.close()))
}

async function ledgerFor(
  { dataDir }: AgentConfig,
  monitorsFile: string,
  dataFolder: OwnProblem,
  log: Log,
): Promise<SlotLedger | undefined> {
  if (dataDir === undefined) return undefined
  const failed = (error: unknown) => {
    const message = diskProblem(error, dataDir)
    if (message === undefined) log.warn({ err: error }, 'slots cannot be stored for a restart')
    else dataFolder.set({ code: DATA_DIR_CODE, message })
  }
  return openSlotLedger(dataDir, monitorsFile, failed).catch((error: unknown) => {
    failed(error)
    return undefined
  })
}

/**
 * Runs the agent on the monitors of a platform until a stop signal; resolves with the exit code. SIGHUP calls
 * `reload`.
 */
export async function runOnPlatform(
  reading: ConfigReading,
  to: { apiKey: string; platformUrl: string },
  more: Pick<AgentEnds, 'reload' | 'prepare'> = {},
): Promise<number> {
  let parts: PlatformParts | undefined
  const faults = agentFaults(reading, { ...to, agentId: () => parts?.agentId() })
  const log = logOf(reading, faults)
  endOnUncaught(log, faults)
  const clock = createClock()
  // Loaded only here: an agent on a file must not carry it in its memory.
  const { openPlatformParts } = await import('../agent/platform/agent.ts')
  parts = await openPlatformParts({
    settings: { ...reading.config, ...to },
    checkTypes: MONITOR_TYPES.keys(),
    clock,
    log,
  })
  try {
    const { source, sink } = parts
    const onResult = resultLogOf(reading.config, log)
    const ends = { source, sink, clock, faults, onResult, ...more }
    return await run(reading, log, ends, parts.link)
  } finally {
    parts.close()
  }
}

async function agentCommand(): Promise<number> {
  const reading = settings()
  if (typeof reading === 'number') return reading
  const { monitorsFile, apiKey, platformUrl } = reading.config
  if (monitorsFile === undefined && apiKey !== undefined && platformUrl !== undefined) {
    return runOnPlatform(reading, { apiKey, platformUrl })
  }
  return runOnFile(reading, { path: monitorsFile ?? '', variables: [] })
}

export const AGENT_COMMAND: Command = {
  name: 'agent',
  summary: 'Run the agent as in production; settings come from the environment',
  description:
    'Runs monitors on their timetable until SIGTERM, which drains: running jobs are finished and ' +
    'delivered, the exit code is 0. A second signal ends it at once. SIGHUP reads the monitors file again; ' +
    'so does a change of it. With API_KEY and PLATFORM_URL it runs monitors of the platform.\n' +
    'Exit code 2: the settings or the file are invalid; 3: the key was revoked.',
  variables: VARIABLES,
  examples: [
    ['MONITORS_FILE=monitors.yaml vedette agent', 'runs the monitors of a file'],
    ['API_KEY=pl_… PLATFORM_URL=https://… vedette agent', 'runs those of a platform'],
    ['curl localhost:8081/-/readiness', 'shows whether it is ready, and why not'],
    ['curl localhost:8081/metrics', 'shows the metrics for Prometheus'],
  ],
  run: agentCommand,
}
