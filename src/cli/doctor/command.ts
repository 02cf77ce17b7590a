// `vedette doctor`: shows what works in the agent's environment, and the line that fixes what does not.
import { VARIABLES } from '../../agent/config.ts'
import type { Command } from '../../process/command-line.ts'

export const DOCTOR_COMMAND: Command = {
  name: 'doctor',
  summary: 'Show what works here, and the line that fixes what does not',
  description:
    'Probes what the agent depends on, with the settings of `vedette agent`: the platform, name servers, disk, ICMP,\n' +
    'traceroute, browser, engines, and the sandbox of user code. Needed is what the settings name and what is\n' +
    'installed. It talks to this machine, the name servers, the proxy and the platform alone, acquires no lock,\n' +
    'and may be called while an agent runs. It ends within 15 s.\n' +
    'Exit code 0: all that is needed works; 1: something does not; 2: the settings are invalid (what does not\n' +
    'depend on them is probed nevertheless); 130: interrupted.',
  options: { json: { help: 'print one JSON object instead of the table' } },
  variables: VARIABLES,
  examples: [
    ['docker exec vedette vedette doctor', 'in a running container, with its settings'],
    ['vedette doctor --json | jq .works', 'feeds another program'],
  ],
  // Loaded only here: an agent must not carry it in its memory.
  run: async (args) => (await import('./doctor.ts')).runDoctor({ json: args.on('json') }),
}
