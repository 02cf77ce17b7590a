// `vedette migrate`: tries scripts on another runtime, and moves those with the same outcome.
import { APPLY_VARIABLES, type ApplyTarget } from '../../client/config.ts'
import type { AgentConfig } from '../../agent/config.ts'
import { migrationOfFile, writeProblem } from './file.ts'
import { migrationJson, migrationTable } from './report.ts'
import { compare, type RunTrial } from './trials.ts'
import { type Comparison, type MigrationSource, type Move, planOf } from './migration.ts'
import { onPlatform } from '../../client/command.ts'
import { RUNTIMES } from '../../contract/runtimes.ts'
import { EXIT } from '../../process/exit-codes.ts'
import type { Arguments, Command } from '../../process/command-line.ts'
import type { Environment } from '../../process/env.ts'
import { mayColour } from '../../process/log.ts'
import type { ScriptHost } from '../../scripts/host.ts'
import type { Toolchains } from '../../scripts/toolchains.ts'
import { onInterrupt } from '../interruption.ts'
import { runsHere } from '../local-runs.ts'
import { complain, warn } from '../monitors-to-run.ts'
import { scriptHost } from '../script-host.ts'
import { CONTEXT, readEnvFile, refuseCommand, settings, showProgress } from '../settings.ts'
import { installHere } from '../tools-command.ts'

const { env, stdout, stderr } = process

interface MigrateOptions {
  move: Move
  env: Environment
  args: Arguments
  config: AgentConfig
  signal: AbortSignal
}

async function migrateCommand(args: Arguments): Promise<number> {
  const [path] = args.positionals
  const move = moveOf(args)
  if (typeof move === 'string') return refuseCommand('migrate', move)
  if (path !== undefined && args.value('location') !== undefined) {
    const why = '--location chooses monitors of a platform; a file has its own location'
    return refuseCommand('migrate', why)
  }
  const more = await readEnvFile(args.value('env-file'))
  if (typeof more === 'string') return refuseCommand('migrate', more)
  // The agent's settings require a source of monitors; here the arguments name it.
  const reading = settings(path ?? 'a platform')
  if (typeof reading === 'number') return reading
  using interruption = onInterrupt()
  const { signal } = interruption
  const given = { ...env, ...more }
  const options = { move, env: given, args, config: reading.config, signal }
  const code =
    path === undefined
      ? await onPlatform('migrate', { ...CONTEXT, env: given }, (target) =>
          migrateOnPlatform(target, options),
        )
      : await migrateFile(path, options)
  return interruption.codeOr(code)
}

/** The old and the new runtime, or a sentence on what is wrong with them. */
function moveOf(args: Arguments): Move | string {
  const known = [...RUNTIMES.keys()].join(', ')
  for (const option of ['from', 'to']) {
    const value = args.value(option)
    if (value === undefined) return `--${option} is missing; name a runtime: ${known}`
    if (!RUNTIMES.has(value)) return `--${option} ${value}: unknown runtime; known are ${known}`
  }
  const [from = '', to = ''] = [args.value('from'), args.value('to')]
  return from === to ? `--from and --to are both ${from}` : { from, to }
}

async function migrateFile(path: string, options: MigrateOptions): Promise<number> {
  const { env: variables, config, move, args } = options
  const { location } = config
  const read = await migrationOfFile({ path, env: variables, location, move })
  if (!read.ok) return complain(read)
  warn(read.warnings)
  if (args.on('apply') && read.source.candidates.length > 0) {
    // Before the runs, which take a while and act on their targets.
    const problem = await writeProblem(path)
    if (problem !== undefined) return refuseCommand('migrate', problem)
  }
  return migrate(read.source, options)
}

async function migrateOnPlatform(target: ApplyTarget, options: MigrateOptions): Promise<number> {
  // Loaded only here: an agent must not carry it in its memory.
  const { migrationOfPlatform } = await import('./platform.ts')
  const { source, warnings } = await migrationOfPlatform({
    target,
    ...options,
    location: options.args.value('location'),
    defaultLocation: options.config.location,
  })
  for (const one of warnings) stderr.write(`warning: ${one}\n`)
  return migrate(source, options)
}

/** Runs the candidates, writes what agrees if asked to, and reports; resolves with the exit code. */
async function migrate(source: MigrationSource, options: MigrateOptions): Promise<number> {
  const { move, args, config } = options
  const host = scriptHost(config)
  try {
    if (source.candidates.length > 0) {
      const code = await ensureRuntimes(move, host.tools, args.on('install'))
      if (code !== 0) return code
    }
    const comparisons = await compareAll(options, source, host)
    if (comparisons === undefined) {
      return refuseCommand('migrate', 'interrupted; nothing was changed')
    }
    const plan = planOf(comparisons)
    const failed = args.on('apply') ? await source.write(plan.write) : undefined
    const report = { move, comparisons, plan, movedAlready: source.movedAlready, failed }
    const text = args.on('json')
      ? `${JSON.stringify(migrationJson(report))}\n`
      : migrationTable(report, mayColour(stdout, env))
    stdout.write(text)
    if (failed !== undefined && failed.size > 0) return EXIT.configuration
    return comparisons.every(({ state }) => state === 'agrees') ? EXIT.ok : EXIT.failed
  } finally {
    host.close()
  }
}

/** Installs missing runtimes if allowed; 0 when both are installed, else the exit code. */
async function ensureRuntimes(
  { from, to }: Move,
  tools: Toolchains,
  mayInstall: boolean,
): Promise<number> {
  for (const id of [from, to]) {
    if ((await tools.find('runtime', id)) !== undefined) continue
    if (!mayInstall) {
      const line = `vedette runtime install ${id}`
      const fix = `install it with: ${line} (or use --install)`
      return refuseCommand('migrate', `the runtime ${id} is not installed; ${fix}`)
    }
    // Standard output has only the report, for other programs to read.
    const write = (text: string) => stderr.write(text)
    const code = await installHere('runtime', id, tools, { write })
    if (code !== 0) return EXIT.configuration
  }
  return 0
}

/** Runs one monitor at a time, so that runs do not slow each other down; undefined: interrupted. */
async function compareAll(
  { move, config, signal }: MigrateOptions,
  { snapshot, candidates }: MigrationSource,
  scripts: ScriptHost,
): Promise<Comparison[] | undefined> {
  const runHere = runsHere(config, snapshot, scripts)
  const comparisons: Comparison[] = []
  for (const candidate of candidates) {
    const { name } = candidate.monitor
    const run: RunTrial = (monitor) => {
      showProgress(`${comparisons.length + 1}/${candidates.length} ${name} on ${monitor.runtimeId}`)
      return runHere({ monitor, slot: Date.now() }, signal)
    }
    const comparison = await compare(candidate, move, run, signal)
    showProgress('')
    if (comparison === undefined) return undefined
    comparisons.push(comparison)
  }
  return comparisons
}

export const MIGRATE_COMMAND: Command = {
  name: 'migrate',
  summary: 'Try scripts on another runtime, and move those with the same outcome',
  positionals: ['[file]'],
  description:
    'Runs each browser and multistep monitor, and each API monitor with scripts, of the old runtime on both ' +
    'runtimes: once on each, twice where the verdicts differ. The scripts act on their real targets.\n' +
    'Without a file, runs the monitors of a platform; their secrets come from the environment.\n' +
    'Changes nothing without --apply.\n' +
    'Exit code 0: all agree; 1: some do not, or could not be run; 2: the arguments, the file or the settings ' +
    'are invalid, or a runtime is missing; 3: the platform cannot be reached; 130, 143: interrupted.',
  options: {
    from: { value: '<runtime>', help: 'the old runtime, like 2024.09' },
    to: { value: '<runtime>', help: 'the new runtime, like 2026.04' },
    location: { value: '<slug>', help: 'only monitors of this location of a platform' },
    apply: { help: 'write the new runtime where all monitors of a place agree' },
    install: { help: 'install a runtime that is missing' },
    'env-file': {
      value: '<file>',
      help: 'values of secrets, NAME=value; override the environment',
    },
    json: { help: 'print one object as JSON' },
  },
  variables: APPLY_VARIABLES,
  examples: [
    ['vedette migrate --from 2024.09 --to 2026.04 monitors.yaml', 'compares, and changes nothing'],
    ['vedette migrate --from 2024.09 --to 2026.04 monitors.yaml --apply', 'and rewrites the file'],
    ['vedette migrate --from 2024.09 --to 2026.04 --location berlin', 'those of a platform'],
  ],
  run: migrateCommand,
}
