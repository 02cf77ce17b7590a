// `vedette start`: everything at once, without any settings.
import { EXIT } from '../process/exit-codes.ts'
import type { Command } from '../process/command-line.ts'
import { loadPart } from '../process/load-part.ts'
import { withFile } from './monitors-to-run.ts'

export const START_COMMAND: Command = {
  name: 'start',
  summary: 'Run everything in one process: platform, agent, and monitors to watch',
  description:
    'Starts the platform on an embedded PostgreSQL in DATA_DIR (./data), an agent, and the monitors ' +
    'of MONITORS_FILE, or else the built-in examples, which come with a small local site and need no ' +
    'network. A changed file is applied again. Where PORT or AGENT_HEALTH_PORT is not set and its default ' +
    'is in use, a free port is used. All variables of `vedette platform` and `vedette agent` apply.\n' +
    'Ctrl-C stops it.',
  examples: [
    ['vedette start', 'watches the built-in examples'],
    ['MONITORS_FILE=monitors.yaml vedette start', 'watches your own'],
  ],
  run: () =>
    withFile(undefined, async (file) => {
      // Loaded only here: an agent must not carry the platform in its memory.
      const part = await loadPart('the platform', () => import('./start.ts'))
      return part === undefined ? EXIT.configuration : part.runEverything(file)
    }),
}
