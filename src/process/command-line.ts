// Commands, their options and their help: one table in, an exit code out. Knows nothing of what the
// commands do.
import { parseArgs } from 'node:util'
import { inColumns } from './columns.ts'
import type { VariableText } from './env.ts'
import { nearest } from './nearest.ts'

/** Exit code for anything wrong with what the user typed or configured. */
export const EXIT_CONFIGURATION = 2

interface Option {
  /** Placeholder of the value in help; absent for switches. */
  value?: string
  short?: string
  help: string
}

export interface Arguments {
  positionals: string[]
  value(name: string): string | undefined
  /** Whether a switch was given. */
  on(name: string): boolean
}

export interface Command {
  name: string
  /** One line for the overview. */
  summary: string
  /** Placeholders of positional arguments, like `[file]`. */
  positionals?: string[]
  options?: Record<string, Option>
  /** Paragraphs under the usage line. */
  description: string
  /** The environment variables that it reads, for help. */
  variables?: readonly VariableText[]
  examples: [command: string, what: string][]
  /** Resolves with the exit code. */
  run(args: Arguments): Promise<number>
}

/** Pages that `help <topic>` prints. */
export interface Manual {
  /** Each topic with the title of its page. */
  topics(): [topic: string, title: string][]
  /** The page as text; undefined where there is none. */
  page(topic: string): string | undefined
}

/** The program as help shows it. */
export interface Program {
  name: string
  version: string
  summary: string
  commands: readonly Command[]
  /** Printed under the overview. */
  epilogue: string
  /** Loaded only where help asks for it. */
  manual(): Promise<Manual>
  write(text: string): void
  complain(text: string): void
}

/** Runs the command that `argv` names; resolves with the exit code. Never rejects for bad arguments. */
export async function runCommandLine(program: Program, argv: readonly string[]): Promise<number> {
  const [name, ...rest] = argv
  if (name === undefined) {
    program.complain(overview(program))
    return EXIT_CONFIGURATION
  }
  if (name === '--version' || name === '-V' || name === 'version') {
    program.write(`${program.version}\n`)
    return 0
  }
  if (name === 'help') return manualHelp(program, rest[0], await program.manual())
  if (name === '--help' || name === '-h') return help(program, rest[0])
  const command = program.commands.find((one) => one.name === name)
  if (command === undefined) return unknownCommand(program, name)
  if (rest.includes('--help') || rest.includes('-h')) return help(program, name)
  const args = parse(command, rest)
  if (typeof args === 'string') {
    program.complain(`${program.name} ${name}: ${args}\nTry: ${program.name} ${name} --help\n`)
    return EXIT_CONFIGURATION
  }
  return command.run(args)
}

function unknownCommand(program: Program, name: string, topics: string[] = []): number {
  const names = [...program.commands.map((one) => one.name), ...topics]
  const near = nearest(name, names)
  const [what, all] = topics.length === 0 ? ['command', 'Commands'] : ['topic', 'Topics']
  const fix = near === undefined ? `${all}: ${names.join(', ')}` : `Did you mean: ${near}?`
  program.complain(`${program.name}: there is no ${what} ${JSON.stringify(name)}. ${fix}\n`)
  return EXIT_CONFIGURATION
}

/** The arguments, or a message about their problem. */
function parse(command: Command, rest: string[]): Arguments | string {
  const options = command.options ?? {}
  const config = Object.fromEntries(
    Object.entries(options).map(([name, option]) => [
      name,
      {
        type: option.value === undefined ? ('boolean' as const) : ('string' as const),
        ...(option.short === undefined ? {} : { short: option.short }),
      },
    ]),
  )
  let parsed: { values: Record<string, unknown>; positionals: string[] }
  try {
    parsed = parseArgs({ args: rest, options: config, allowPositionals: true, strict: true })
  } catch (error) {
    return optionProblem(error as Error, Object.keys(options))
  }
  const { values, positionals } = parsed
  const most = command.positionals?.length ?? 0
  if (positionals.length > most) {
    return `unexpected argument ${JSON.stringify(positionals[most])}`
  }
  return {
    positionals,
    value: (name) => values[name] as string | undefined,
    on: (name) => values[name] === true,
  }
}

function optionProblem(error: Error, names: string[]): string {
  const unknown = /Unknown option '(-[^']+)'/.exec(error.message)?.[1]
  if (unknown === undefined) return error.message
  const near = nearest(unknown.replace(/^-+/, ''), names)
  return `unknown option ${unknown}${near === undefined ? '' : `; did you mean --${near}?`}`
}

/** `help` alone lists the topics; a topic is a page of the manual, or else a command. */
function manualHelp(program: Program, name: string | undefined, manual: Manual): number {
  const topics = manual.topics()
  if (name === undefined || name.startsWith('-')) {
    const list = columns(topics).join('\n')
    program.write(
      `${overview(program)}\nPages of the manual, by \`${program.name} help <topic>\`:\n${list}\n`,
    )
    return 0
  }
  const page = manual.page(name)
  const isCommand = program.commands.some((one) => one.name === name)
  if (page === undefined && isCommand) return help(program, name)
  if (page === undefined)
    return unknownCommand(
      program,
      name,
      topics.map(([topic]) => topic),
    )
  program.write(page)
  if (isCommand)
    program.write(`\n${program.name} ${name} --help shows the options of the command.\n`)
  return 0
}

function help(program: Program, name: string | undefined): number {
  if (name === undefined || name.startsWith('-')) {
    program.write(overview(program))
    return 0
  }
  const command = program.commands.find((one) => one.name === name)
  if (command === undefined) return unknownCommand(program, name)
  program.write(commandHelp(program, command))
  return 0
}

function overview(program: Program): string {
  return [
    `${program.name} ${program.version} — ${program.summary}`,
    '',
    `Usage: ${program.name} <command> [options]`,
    '',
    'Commands:',
    ...columns(program.commands.map((one) => [one.name, one.summary])),
    '',
    `${program.name} <command> --help describes a command; --version prints the version.`,
    `${program.name} help lists the pages of the manual; ${program.name} help <topic> prints one.`,
    '',
    program.epilogue,
    '',
  ].join('\n')
}

function commandHelp(program: Program, command: Command): string {
  const options = Object.entries(command.options ?? {})
  const usage = [program.name, command.name, ...(command.positionals ?? [])]
  if (options.length > 0) usage.push('[options]')
  const spelled = options.map(([name, option]): [string, string] => {
    const short = option.short === undefined ? '' : `-${option.short}, `
    const value = option.value === undefined ? '' : ` ${option.value}`
    return [`${short}--${name}${value}`, option.help]
  })
  const lines = [`Usage: ${usage.join(' ')}`, '', command.description.trim(), '']
  if (spelled.length > 0) lines.push('Options:', ...columns(spelled), '')
  if (command.variables !== undefined) {
    const rows = command.variables.map(({ name, default: fallback, meaning }): [string, string] => {
      return [name, fallback === '–' ? meaning : `${meaning} (default ${fallback})`]
    })
    const heading = 'Environment (each NAME also as NAME_FILE, a file that holds the value):'
    lines.push(heading, ...columns(rows), '')
  }
  lines.push('Examples:', ...columns(command.examples), '')
  return lines.join('\n')
}

const columns = (rows: [string, string][]) => inColumns(rows).map((line) => `  ${line}`)
