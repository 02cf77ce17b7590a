// `vedette check` and `vedette validate`: run or read the monitors of a file once.
import { resolve } from 'node:path'
import { exitCodeOf, runOnce } from '../agent/run/check.ts'
import type { AgentConfig } from '../agent/config.ts'
import { snapshotOf } from '../agent/monitors-file/source.ts'
import { type LoadedFile, readMonitorsFile } from '../agent/monitors-file/file.ts'
import { junitOf } from '../client/report-junit.ts'
import { tableOf } from '../client/report-table.ts'
import type { Monitor } from '../contract/monitor.ts'
import type { Result } from '../contract/result.ts'
import { counted } from '../contract/schema/amounts.ts'
import type { Arguments, Command } from '../process/command-line.ts'
import { EXIT } from '../process/exit-codes.ts'
import { mayColour } from '../process/log.ts'
import { nameFix } from '../process/nearest.ts'
import { onInterrupt } from './interruption.ts'
import { runsHere } from './local-runs.ts'
import {
  complain,
  FILE_HELP,
  FILE_TYPES,
  warn,
  withFile,
  withoutHeartbeats,
} from './monitors-to-run.ts'
import { scriptHost } from './script-host.ts'
import { refuseCommand, settings, showProgress } from './settings.ts'
import { folderOf, storedFilesIn } from './stored-files.ts'

const { env, stdout, stderr } = process

async function validateCommand(args: Arguments): Promise<number> {
  return withFile(args.positionals[0], async (file) => {
    const read = await readMonitorsFile(file.path, env, FILE_TYPES, file.variables)
    if (!read.ok) return complain(read)
    warn(read.file.warnings)
    const { monitors } = read.file
    withoutHeartbeats('validate', monitors)
    stdout.write(`${file.path}: ${counted(monitors.length, 'monitor')}, no problem\n`)
    return 0
  })
}

async function checkCommand(args: Arguments): Promise<number> {
  if (args.on('json') && args.on('junit')) {
    return refuseCommand('check', '--json and --junit cannot be combined; use one of them')
  }
  return withFile(args.positionals[0], async (file) => {
    const reading = settings(file.path)
    if (typeof reading === 'number') return reading
    const read = await readMonitorsFile(file.path, env, FILE_TYPES, file.variables)
    if (!read.ok) return complain(read)
    warn(read.file.warnings)
    const selected = chosen(read.file.monitors, args)
    if (typeof selected === 'string') return refuseCommand('check', selected)
    const monitors = withoutHeartbeats('check', selected)
    if (monitors.length === 0) return EXIT.configuration
    const given = args.value('output')
    const output = given === undefined ? undefined : resolve(given)
    const options = { monitors, json: args.on('json'), output }
    const { results, code } = await runRound(reading.config, read.file, options)
    if (args.on('junit')) stdout.write(junitOf(results))
    else if (!args.on('json')) stdout.write(tableOf(results, { colour: mayColour(stdout, env) }))
    const hasFiles = output !== undefined && results.some(({ artifacts }) => artifacts.length > 0)
    if (hasFiles) stderr.write(`files: ${output}\n`)
    return code
  })
}

/** The monitors that the options select, or a sentence on why there are none. */
function chosen(all: readonly Monitor[], args: Arguments): Monitor[] | string {
  const [only, tag] = [args.value('only'), args.value('tag')]
  const named = all.filter((one) =>
    only === undefined ? one.activated : one.id === only || one.name === only,
  )
  if (named.length === 0 && only !== undefined) {
    const ids = all.map((one) => one.id)
    return `--only ${only}: no monitor matches; ${nameFix(only, ids)}`
  }
  const monitors = named.filter((one) => tag === undefined || one.tags.includes(tag))
  if (monitors.length > 0) return monitors
  if (named.length === 0 || tag === undefined) return 'the file has no activated monitor'
  const tags = [...new Set(named.flatMap((one) => one.tags))]
  const options = only === undefined ? `--tag ${tag}` : `--only ${only} --tag ${tag}`
  return `${options}: no monitor has this tag; ${nameFix(tag, tags)}`
}

interface CheckRunOptions {
  monitors: readonly Monitor[]
  json: boolean
  /** The folder for files of runs, with a subfolder for each monitor. */
  output: string | undefined
}

/** Runs the monitors once, with progress on a terminal; Ctrl-C cancels the rest. */
async function runRound(
  config: AgentConfig,
  file: LoadedFile,
  { monitors, json, output }: CheckRunOptions,
): Promise<{ results: Result[]; code: number }> {
  const workFolders = new Set<string>()
  using interruption = onInterrupt('check', workFolders)
  const scripts = scriptHost(config)
  const more = { source: 'TEST_NO_RECORD', workFolders } as const
  const runHere = runsHere(config, snapshotOf(file, config.location), scripts, more)
  const results = await runOnce({
    monitors,
    async run(job, signal, turn) {
      const files =
        output === undefined ? undefined : storedFilesIn(folderOf(output, job.monitor.id))
      const result = await runHere(job, signal, { turn, files })
      await files?.settle(result)
      return result
    },
    concurrency: { uptime: config.uptimeConcurrency, scripted: config.jobConcurrency },
    signal: interruption.signal,
    onResult(result, done) {
      if (json) stdout.write(`${JSON.stringify(result)}\n`)
      showProgress(`${done}/${monitors.length} checked`)
    },
  })
  showProgress('')
  scripts.close()
  return { results, code: interruption.codeOr(exitCodeOf(results)) }
}

export const CHECK_COMMAND: Command = {
  name: 'check',
  summary: 'Run every monitor of a file once, now, and report',
  positionals: ['[file]'],
  description:
    `Runs every activated monitor once, with its retries, and prints a table. ${FILE_HELP}\n` +
    'Exit code 0: all passed or were degraded; 1: something failed; 2: the file or the settings are invalid; ' +
    '130 and 143: interrupted by Ctrl-C or SIGTERM; unfinished runs are shown as cancelled.',
  options: {
    json: { help: 'print each result as a line of JSON' },
    junit: { help: 'print JUnit XML for CI systems' },
    only: { value: '<id>', help: 'run only this monitor, activated or not' },
    tag: { value: '<tag>', help: 'run only monitors with this tag' },
    output: {
      value: '<folder>',
      help: 'store files of scripts and suites here, in a folder for each monitor’s id',
    },
  },
  examples: [
    ['vedette check', 'runs the built-in example'],
    ['vedette check monitors.yaml', 'runs your own'],
    ['vedette check monitors.yaml --json | jq .verdict', 'for another program'],
    ['vedette check monitors.yaml --only shop', 'runs one of them'],
  ],
  run: checkCommand,
}

export const VALIDATE_COMMAND: Command = {
  name: 'validate',
  summary: 'Check a monitors file and report every problem',
  positionals: ['[file]'],
  description:
    'Reads the file and runs nothing. Every problem is shown with its line, the value and ' +
    `the fix. ${FILE_HELP}\nExit code 0: the file is valid; 2: it is not.`,
  examples: [['vedette validate monitors.yaml', 'checks a file before it is used']],
  run: validateCommand,
}
