// The commands of the program, in the order of its help.
import type { Command } from '../process/command-line.ts'
import { platformCommands } from '../platform/commands.ts'
import { AGENT_COMMAND } from './agent-command.ts'
import { APPLY_COMMAND } from './apply-command.ts'
import { CHECK_COMMAND, VALIDATE_COMMAND } from './check-command.ts'
import { DOCTOR_COMMAND } from './doctor/command.ts'
import { posterTo } from './fault-reports.ts'
import { IMPORT_COMMAND } from './import-command.ts'
import { MIGRATE_COMMAND } from './migrate/command.ts'
import { CANCEL_COMMAND, RUN_COMMAND } from './run-command.ts'
import { START_COMMAND } from './start-command.ts'
import { TEST_COMMAND } from './test-command.ts'
import { TOOLS_COMMANDS } from './tools-command.ts'

const { env, stdout, stderr } = process

export const COMMANDS: readonly Command[] = [
  START_COMMAND,
  AGENT_COMMAND,
  CHECK_COMMAND,
  VALIDATE_COMMAND,
  IMPORT_COMMAND,
  APPLY_COMMAND,
  TEST_COMMAND,
  RUN_COMMAND,
  CANCEL_COMMAND,
  DOCTOR_COMMAND,
  ...TOOLS_COMMANDS,
  MIGRATE_COMMAND,
  ...platformCommands({ env, stdout, stderr, posterTo }),
]
