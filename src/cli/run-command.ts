// `vedette run` and `vedette cancel`: run a monitor of a platform now, or cancel a run.
import { APPLY_VARIABLES } from '../client/config.ts'
import type { Arguments, Command } from '../process/command-line.ts'
import { isForPeople } from '../process/log.ts'
import { onInterrupt } from './interruption.ts'
import { CONTEXT } from './settings.ts'

const { stderr } = process

const WAITING_EVERY_MS = 10_000

async function runCommand(args: Arguments): Promise<number> {
  const [monitor = ''] = args.positionals
  const location = args.value('location')
  const order = { monitor, location, wait: !args.on('no-wait'), json: args.on('json') }
  // Loaded only here: an agent must not carry it in its memory.
  const { runNow } = await import('../client/run-now.ts')
  using interruption = onInterrupt('run')
  const waitingEveryMs = isForPeople(stderr) ? WAITING_EVERY_MS : undefined
  const code = await runNow(order, { ...CONTEXT, stop: interruption.signal, waitingEveryMs })
  return interruption.codeOr(code)
}

async function cancelCommand(args: Arguments): Promise<number> {
  const [runId = ''] = args.positionals
  const { cancelNow } = await import('../client/run-now.ts')
  return cancelNow(runId, CONTEXT)
}

export const RUN_COMMAND: Command = {
  name: 'run',
  summary: 'Run a monitor of a platform now, on its agents, and report',
  positionals: ['<monitor>'],
  description:
    'Asks the platform for a run in each location of the monitor, follows it and prints the result as ' +
    '`vedette check` does. A deactivated monitor can be run as well. Ctrl-C cancels the run; a second one ' +
    'only stops the waiting. Files arrive after the result: the command waits up to 15 s for them and shows ' +
    'their paths in the public API (with --json: `artifacts[].id`).\n' +
    'Exit code 0: passed or degraded; 1: failed; 2: the settings are invalid, or the platform refuses; 3: the ' +
    'platform cannot be reached; 4: the run says nothing about the target (errored, cancelled, missed); ' +
    '130 and 143: it was interrupted, by Ctrl-C or SIGTERM.',
  options: {
    location: { value: '<slug>', help: 'run it only in this location' },
    'no-wait': { help: 'print the ids of the runs and do not wait for them' },
    json: { help: 'print one run a line as JSON' },
  },
  variables: APPLY_VARIABLES,
  examples: [
    ['vedette run "Shop"', 'runs it everywhere'],
    ['vedette run "Shop" --location berlin', 'runs it in one location'],
    ['vedette run "Shop" --json | jq .verdict', 'for another program'],
  ],
  run: runCommand,
}

export const CANCEL_COMMAND: Command = {
  name: 'cancel',
  summary: 'Cancel a run that was requested',
  positionals: ['<run>'],
  description:
    'Cancels at once when no agent has it; else its agent is notified. The result shows the outcome. A finished ' +
    'run does not change. Exit codes as for `vedette run`.',
  variables: APPLY_VARIABLES,
  examples: [['vedette cancel 0f8fad5b-d9cb-469f-a165-70867728950e', 'cancels that run']],
  run: cancelCommand,
}
