// `vedette apply`: applies a monitors file to a platform.
import { APPLY_VARIABLES } from '../client/config.ts'
import type { Arguments, Command } from '../process/command-line.ts'
import { onInterrupt } from './interruption.ts'
import { pathOf } from './monitors-to-run.ts'
import { CONTEXT, refuseCommand } from './settings.ts'

async function applyCommand(args: Arguments): Promise<number> {
  const path = pathOf(args.positionals[0])
  if (typeof path === 'number') return path
  if (path === undefined) {
    return refuseCommand('apply', 'name a file of monitors, or set MONITORS_FILE')
  }
  const order = {
    path,
    name: args.value('name'),
    prune: args.on('prune'),
    planOnly: args.on('plan'),
  }
  using interruption = onInterrupt()
  // Loaded only here: an agent must not carry it in its memory.
  const { runApply } = await import('../client/apply.ts')
  return await runApply(order, CONTEXT, interruption.signal)
}

export const APPLY_COMMAND: Command = {
  name: 'apply',
  summary: 'Bring the monitors of a file onto a platform: plan, then apply',
  positionals: ['[file]'],
  description:
    'Applies the monitors, groups and variables of the file to the platform, all or nothing, and prints the ' +
    'changes; what is unchanged stays untouched. Default: the file of MONITORS_FILE. The ids in the file ' +
    'identify what was applied before under the same name.\n' +
    'Exit code 0: done, or nothing to do; 1: --plan found changes; 2: the file or the settings are invalid, or ' +
    'the platform refuses them; 3: the platform cannot be reached or fails.',
  options: {
    plan: { help: 'print what would change and change nothing' },
    prune: { help: 'delete what was applied under this name and is no longer in the file' },
    name: { value: '<name>', help: 'name of the file on the platform; default: its base name' },
  },
  variables: APPLY_VARIABLES,
  examples: [
    ['vedette apply monitors.yaml --plan', 'shows what would change'],
    ['vedette apply monitors.yaml', 'applies the file'],
    ['vedette apply monitors.yaml --prune', 'and deletes what was removed from it'],
  ],
  run: applyCommand,
}
