// The platform's commands as the command line shows them.
import { ROLES } from '../contract/api/account.ts'
import { EXIT } from '../process/exit-codes.ts'
import type { Command } from '../process/command-line.ts'
import { loadPart } from '../process/load-part.ts'
import { VARIABLES } from './config.ts'
import type { CommandContext } from './run-platform.ts'

/** The commands that work on the platform's database. */
export function platformCommands(context: CommandContext): Command[] {
  return [
    platformCommand(context),
    keysCommand(context),
    accountsCommand(context),
    backupCommand(context),
    restoreCommand(context),
  ]
}

function platformCommand(context: CommandContext): Command {
  return {
    name: 'platform',
    summary: 'Run the platform and its public API; settings come from the environment',
    description:
      'Serves the API on PostgreSQL: the one that DATABASE_URL names, or else an embedded one that it ' +
      'starts in DATA_DIR. The first start creates an account and an Admin key, and shows them once.\n' +
      'SIGTERM drains: requests in flight end, the exit code is 0; a second signal ends it at once.\n' +
      'Exit code 2: something is wrong with the settings; 1: the database did not answer in time.',
    variables: VARIABLES,
    examples: [
      ['vedette platform', 'runs it with an embedded database in ./data'],
      ['DATABASE_URL=postgresql://… vedette platform', 'runs it on your PostgreSQL'],
      ['curl localhost:3000/-/readiness', 'shows whether it is ready, and why not'],
    ],
    async run() {
      return withPart(
        () => import('./run-platform.ts'),
        (part) => part.runPlatform(context),
      )
    },
  }
}

function keysCommand(context: CommandContext): Command {
  return {
    name: 'keys',
    summary: 'Create, list and revoke keys of the public API',
    positionals: ['<create|list|revoke>', '[id]'],
    description:
      'Works on the platform’s database (DATABASE_URL, or the embedded one in DATA_DIR), whether the ' +
      `platform runs or not. Roles: ${ROLES.join(', ')}. A key is shown once, when it is created.\n` +
      'A revoked key is refused within seconds by every process of the platform.',
    options: {
      name: { value: '<name>', help: 'what the key is for (create)' },
      role: { value: '<role>', help: 'permissions of the key (create)' },
      account: { value: '<id>', help: 'the account, if there are several (create, list)' },
    },
    examples: [
      ['vedette keys create --name deploys --role "Read & Write"', 'creates a key'],
      ['vedette keys list', 'shows all keys, without the keys themselves'],
      ['vedette keys revoke 7d0b…', 'revokes one by its id'],
    ],
    async run(args) {
      const [action, id] = args.positionals
      const [name, role] = [args.value('name'), args.value('role')]
      const request = { action, id, name, role, accountId: args.value('account') }
      return withPart(
        () => import('./keys-command.ts'),
        (part) => part.runKeys(request, context),
      )
    },
  }
}

function accountsCommand(context: CommandContext): Command {
  return {
    name: 'accounts',
    summary: 'Create and list accounts of the platform',
    positionals: ['<create|list>'],
    description:
      'Works on the platform’s database, whether the platform runs or not. A new account gets an Admin ' +
      'key, which is shown once. Monitors, locations, keys and status pages belong to one account.',
    options: { name: { value: '<name>', help: 'name of the account (create)' } },
    examples: [
      ['vedette accounts create --name "Team B"', 'creates an account and its first key'],
      ['vedette accounts list', 'shows all accounts'],
    ],
    async run(args) {
      const request = { action: args.positionals[0], name: args.value('name') }
      return withPart(
        () => import('./accounts-command.ts'),
        (part) => part.runAccounts(request, context),
      )
    },
  }
}

function backupCommand(context: CommandContext): Command {
  return {
    name: 'backup',
    summary: 'Write the platform’s database to a file, while the platform runs',
    positionals: ['<file>'],
    description:
      'Writes all rows of the platform’s database (DATABASE_URL, or the embedded one in DATA_DIR) as they ' +
      'are at one instant. Secrets in it stay encrypted: back up SECRETS_KEY, or DATA_DIR/secrets.key, and ' +
      'the files of results separately.',
    examples: [['vedette backup vedette.backup', 'creates or replaces the file']],
    run: ({ positionals: [path = ''] }) =>
      withPart(
        () => import('./backup-command.ts'),
        (part) => part.runBackup(path, context),
      ),
  }
}

function restoreCommand(context: CommandContext): Command {
  return {
    name: 'restore',
    summary: 'Restore a backup into an empty database',
    positionals: ['<file>'],
    description:
      'Fills an empty database (DATABASE_URL, or the embedded one in DATA_DIR) with a backup of this or an ' +
      'earlier version: all of it or nothing. Before the first start, put the SECRETS_KEY of the backup into ' +
      'the environment, or secrets.key into DATA_DIR.',
    examples: [['DATA_DIR=new vedette restore vedette.backup', 'restores into a new folder']],
    run: ({ positionals: [path = ''] }) =>
      withPart(
        () => import('./backup-command.ts'),
        (part) => part.runRestore(path, context),
      ),
  }
}

/** Loads a part of the platform when its command runs: an agent must not carry it in its memory. */
async function withPart<Part>(
  load: () => Promise<Part>,
  run: (part: Part) => Promise<number>,
): Promise<number> {
  const part = await loadPart('the platform', load)
  return part === undefined ? EXIT.configuration : run(part)
}
