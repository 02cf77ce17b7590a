// `vedette start`: something to see at once, without any settings.
import { VARIABLES } from '../agent/config.ts'
import type { Command } from '../host/command-line.ts'
import { environmentHelp } from '../host/environment-help.ts'
import { runOnFile } from './agent-command.ts'
import { FILE_HELP, onlyFile, withFile } from './monitors-to-run.ts'
import { settings } from './settings.ts'

const { env } = process

async function startCommand(): Promise<number> {
  const isChosen = [env['LOG_RESULTS'], env['LOG_RESULTS_FILE']].some((one) => (one ?? '') !== '')
  return withFile(undefined, (file) => {
    const reading = settings({ ...onlyFile(file), ...(isChosen ? {} : { LOG_RESULTS: 'all' }) })
    return typeof reading === 'number' ? Promise.resolve(reading) : runOnFile(reading, file)
  })
}

/** `vedette start`. */
export const START_COMMAND: Command = {
  name: 'start',
  summary: 'Watch the example monitors, or those of MONITORS_FILE, with readable output',
  description: `Starts the agent at once, without any settings. ${FILE_HELP}\nStops on Ctrl-C.`,
  more: () => environmentHelp(VARIABLES),
  examples: [
    ['vedette start', 'watches the built-in example'],
    ['MONITORS_FILE=monitors.yaml vedette start', 'watches your own'],
  ],
  run: startCommand,
}
