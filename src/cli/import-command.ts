// The command `vedette import`.
import type { Command } from '../process/command-line.ts'
import { CONTEXT } from './settings.ts'

export const IMPORT_COMMAND: Command = {
  name: 'import',
  summary: 'Make a monitors file of the configuration of another tool',
  positionals: ['<file>'],
  description:
    'Reads the configuration of blackbox_exporter, gatus or Uptime Kuma and prints a monitors file that passes ' +
    '`vedette validate`. A monitor with an option that has no equivalent is refused, with the line and the reason.\n' +
    'Secrets stay out of the file: it has their names, and the environment their values.\n' +
    'Exit code 0: written; 2: something was refused and --partial was not given, or a file is invalid.',
  options: {
    from: {
      value: '<tool>',
      help: 'blackbox, gatus or uptime-kuma; by default detected from the file',
    },
    targets: {
      value: '<file>',
      help: 'of blackbox: prometheus.yml; by default the one in the same folder',
    },
    output: { value: '<file>', help: 'a new file in place of standard output' },
    partial: { help: 'write the monitors without refused options' },
  },
  examples: [
    ['vedette import blackbox.yml --targets prometheus.yml', 'prints the monitors of all targets'],
    ['vedette import gatus.yaml --output monitors.yaml', 'writes them to a file'],
    ['vedette import backup.json --partial', 'leaves out what has no equivalent'],
  ],
  async run(args) {
    // Loaded only here: an agent must not carry it in its memory.
    const { runImport } = await import('./import/command.ts')
    return runImport(args, CONTEXT)
  },
}
