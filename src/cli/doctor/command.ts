// `vedette doctor`: shows what works in the agent's environment, and the fix for what does not.
import { VARIABLES } from '../../agent/config.ts'
import type { Command } from '../../process/command-line.ts'

export const DOCTOR_COMMAND: Command = {
  name: 'doctor',
  summary: 'Show what works here, and the fix for what does not',
  description:
    'Probes what the agent depends on, with the settings of `vedette agent`: the platform, name servers, disk, ICMP, ' +
    'traceroute, browser, engines, and the sandbox of user code. Required is what the settings name or what ' +
    'is installed; with MONITORS_FILE, what the monitors of the file use. It contacts only this machine, ' +
    'the name servers, the proxy and the platform, takes no lock, and can run next to an agent. It ends within 32 s.\n' +
    'Exit code 0: all required checks passed; 1: some failed; 2: the settings are invalid (the other checks ' +
    'still run); 130, 143: interrupted.',
  options: { json: { help: 'print one JSON object instead of the table' } },
  variables: VARIABLES,
  examples: [
    ['docker exec vedette vedette doctor', 'in a running container, with its settings'],
    ['vedette doctor --json | jq .works', 'for another program'],
  ],
  // Loaded only here: an agent must not carry it in its memory.
  run: async (args) => (await import('./doctor.ts')).runDoctor({ json: args.on('json') }),
}
