// `vedette apply`: applies a monitors file to a platform.
import { APPLY_VARIABLES } from '../client/config.ts'
import { readMonitorsFilePath } from '../agent/config.ts'
import { type Arguments, type Command, EXIT_CONFIGURATION } from '../process/command-line.ts'
import { environmentHelp } from '../process/environment-help.ts'
import { onSignals } from '../process/signals.ts'
import { CONTEXT, refuse } from './settings.ts'

const { env, stderr } = process

async function applyCommand(args: Arguments): Promise<number> {
  const named = args.positionals[0]
  const { path, problems } =
    named === undefined ? readMonitorsFilePath(env) : { path: named, problems: [] }
  if (problems.length > 0) return refuse(problems)
  if (path === undefined || path === '') {
    stderr.write('vedette apply: name a file of monitors, or set MONITORS_FILE\n')
    return EXIT_CONFIGURATION
  }
  const order = {
    path,
    name: args.value('name'),
    prune: args.on('prune'),
    planOnly: args.on('plan'),
  }
  const stop = new AbortController()
  const offSignals = onSignals({ stop: () => stop.abort() })
  try {
    // Loaded only here: an agent must not carry it in its memory.
    const { runApply } = await import('../client/apply.ts')
    return await runApply(order, CONTEXT, stop.signal)
  } finally {
    offSignals()
  }
}

export const APPLY_COMMAND: Command = {
  name: 'apply',
  summary: 'Bring the monitors of a file onto a platform: plan, then apply',
  positionals: ['[file]'],
  description:
    'Applies the monitors, groups and variables of the file to the platform, all or nothing, and prints the\n' +
    'changes; what is the same stays untouched. The file is the one named, or else\n' +
    'MONITORS_FILE. What was applied under the same name is found again by the ids in the file.\n' +
    'Exit code 0: done, or nothing to do; 1: --plan found changes; 2: the file or the settings are invalid, or\n' +
    'the platform refuses them; 3: the platform cannot be reached or fails.',
  options: {
    plan: { help: 'print what would change and change nothing' },
    prune: { help: 'delete what was applied under this name and is in the file no more' },
    name: { value: '<name>', help: 'what the file is known by; its base name otherwise' },
  },
  more: () => environmentHelp(APPLY_VARIABLES),
  examples: [
    ['vedette apply monitors.yaml --plan', 'shows what would change'],
    ['vedette apply monitors.yaml', 'applies the file'],
    ['vedette apply monitors.yaml --prune', 'and deletes what was removed from it'],
  ],
  run: applyCommand,
}
