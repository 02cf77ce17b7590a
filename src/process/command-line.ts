// Commands, their options and their help: one table in, an exit code out. Knows nothing of what the
// commands do.
import { parseArgs } from 'node:util'
import { inColumns, wrapText } from './columns.ts'
import type { VariableText } from './env.ts'
import { nameFix, nearest } from './nearest.ts'
import { EXIT } from './exit-codes.ts'

interface Option {
  /** Placeholder of the value in help; absent for switches. */
  value?: string
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
  /** Placeholders of positional arguments: `[file]`, `<file>` where one is required, `<a|b>` for one of some. */
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
  /** The page as text, by a topic in any case; undefined where there is none. */
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
    return EXIT.configuration
  }
  if (name === '--version' || name === '-V' || name === 'version') {
    if (rest.length > 0) return refuse(program, name, `unexpected argument ${shown(rest[0])}`)
    program.write(`${program.version}\n`)
    return 0
  }
  const isHelp = name === 'help' || name === '--help' || name === '-h'
  if (isHelp && rest.length > 1)
    return refuse(program, name, `unexpected argument ${shown(rest[1])}`)
  if (name === 'help') return manualHelp(program, rest[0], await program.manual())
  if (isHelp) return help(program, rest[0])
  const command = program.commands.find((one) => one.name === name)
  if (command === undefined) return unknownCommand(program, name)
  if (rest.includes('--help') || rest.includes('-h')) return help(program, name)
  const args = parse(command, rest)
  if (typeof args === 'string') return refuse(program, name, args)
  return command.run(args)
}

function refuse(program: Program, name: string, problem: string): number {
  program.complain(`${program.name} ${name}: ${problem}\nTry: ${program.name} ${name} --help\n`)
  return EXIT.configuration
}

function unknownCommand(program: Program, name: string): number {
  const isOption = name.startsWith('-')
  const known = isOption ? ['--help', '--version'] : program.commands.map((one) => one.name)
  const what = isOption ? 'option' : 'command'
  program.complain(`${program.name}: unknown ${what} ${shown(name)}; ${nameFix(name, known)}\n`)
  return EXIT.configuration
}

const shown = (text: unknown) => JSON.stringify(text)

/** The arguments, or a message about their problem. */
function parse(command: Command, rest: string[]): Arguments | string {
  const options = command.options ?? {}
  const config = Object.fromEntries(
    Object.entries(options).map(([name, option]) => [
      name,
      { type: option.value === undefined ? ('boolean' as const) : ('string' as const) },
    ]),
  )
  let parsed
  try {
    const how = { allowPositionals: true, strict: true, tokens: true } as const
    parsed = parseArgs({ args: rest, options: config, ...how })
  } catch (error) {
    return optionProblem(error as Error, options)
  }
  const { positionals, tokens } = parsed
  const values: Record<string, unknown> = parsed.values
  const valued = tokens.flatMap((one) =>
    one.kind === 'option' && one.value !== undefined ? [one.name] : [],
  )
  const twice = valued.find((one, at) => valued.indexOf(one) !== at)
  if (twice !== undefined) return `the option --${twice} is given twice; keep one of them`
  const empty = valued.find((name) => values[name] === '')
  if (empty !== undefined) return `the option --${empty} is empty; give it a value or leave it out`
  const problem = positionalProblem(command.positionals ?? [], positionals)
  if (problem !== undefined) return problem
  return {
    positionals,
    value: (name) => values[name] as string | undefined,
    on: (name) => values[name] === true,
  }
}

function positionalProblem(
  placeholders: readonly string[],
  given: readonly string[],
): string | undefined {
  if (given.length > placeholders.length) {
    return `unexpected argument ${shown(given[placeholders.length])}`
  }
  for (const [at, placeholder] of placeholders.entries()) {
    const text = given[at]
    if (text === '') return `the argument ${placeholder} is empty`
    if (text === undefined) {
      if (placeholder.startsWith('<')) return `the argument ${placeholder} is missing`
      continue
    }
    const choices = placeholder.slice(1, -1).split('|')
    if (choices.length > 1 && !choices.includes(text)) {
      return `unknown argument ${shown(text)}; ${nameFix(text, choices)}`
    }
  }
  return undefined
}

function optionProblem(error: Error, options: Record<string, Option>): string {
  const unknown = /Unknown option '(-[^']+)'/.exec(error.message)?.[1]
  if (unknown === undefined) {
    const name = /^Option '--([\w-]+)/.exec(error.message)?.[1] ?? ''
    const value = options[name]?.value
    return value === undefined
      ? `the option --${name} takes no value`
      : `the option --${name} needs a value; write --${name}=${value}`
  }
  const near = nearest(unknown.replace(/^-+/, ''), Object.keys(options))
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
  const commandName = name.toLowerCase()
  const isCommand = program.commands.some((one) => one.name === commandName)
  if (page === undefined && isCommand) return help(program, commandName)
  if (page === undefined) {
    const near = nearest(
      name,
      topics.map(([topic]) => topic),
    )
    const fix = near === undefined ? `${program.name} help lists them` : `did you mean ${near}?`
    program.complain(`${program.name}: unknown topic ${shown(name)}; ${fix}\n`)
    return EXIT.configuration
  }
  program.write(page)
  if (isCommand)
    program.write(`\n${program.name} ${commandName} --help shows the options of the command.\n`)
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
    const value = option.value === undefined ? '' : ` ${option.value}`
    return [`--${name}${value}`, option.help]
  })
  const description = command.description.split('\n').flatMap((one) => wrapText(one, WIDTH))
  const lines = [`Usage: ${usage.join(' ')}`, '', ...description, '']
  if (spelled.length > 0) lines.push('Options:', ...columns(spelled), '')
  if (command.variables !== undefined) {
    const rows = command.variables.map(({ name, default: fallback, meaning }): [string, string] => {
      return [name, fallback === '–' ? meaning : `${meaning} (default ${fallback})`]
    })
    const heading = 'Environment (each NAME also as NAME_FILE, a file that contains the value):'
    lines.push(heading, ...columns(rows), '')
  }
  lines.push('Examples:', ...columns(command.examples), '')
  return lines.join('\n')
}

/** The widest line of help, columns. */
const WIDTH = 100
const INDENT = '  '

/** Two columns, of which the second is wrapped. */
function columns(rows: readonly [string, string][]): string[] {
  const first = Math.max(0, ...rows.map(([name]) => name.length))
  const room = WIDTH - 2 * INDENT.length - first
  const lines = rows.flatMap(([name, text]) =>
    wrapText(text, room).map((line, at) => [at === 0 ? name : '', line]),
  )
  return inColumns(lines).map((line) => `${INDENT}${line}`)
}
