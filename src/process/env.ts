// Reads a program's settings from the environment by a table, from which help and documentation are
// made too. All problems are found at once; a setting may come from a file, as container platforms
// hand out secrets.
import { existsSync, readFileSync, statSync } from 'node:fs'
import { seeHelp } from './see-help.ts'

/** A parsed text: a value, or its problem. */
export type Parsed<T> = { value: T } | { allowed: string; fix: string }

export interface Variable<T> {
  /** One line for help: its effect. */
  meaning: string
  /** The default as documentation shows it, with its unit. */
  shownDefault: string
  /** Unit of the value where it is a number. */
  unit?: string
  /** Never shown; masked in messages. */
  secret?: boolean
  /** Other spellings that are read when the name itself is not set, like `https_proxy`. */
  alsoAs?: readonly string[]
  /** False where another program reads the variable, so that NAME_FILE could not reach it. */
  fromFile?: boolean
  parse(text: string): Parsed<T>
  /** Default when the variable is not set or empty. */
  otherwise: T
}

export type VariableTable = Readonly<Record<string, Variable<unknown>>>

/** The values of a table, by the same names. */
export type Values<T extends VariableTable> = {
  [Name in keyof T]: T[Name] extends Variable<infer V> ? V : never
}

export type Environment = Readonly<Record<string, string | undefined>>

/** Environment of a program of the system: others may read it, so it has nothing of ours. */
export function programEnvironment(): Environment {
  return { PATH: process.env['PATH'] }
}

/** Something wrong with one variable, with the fix. */
export interface EnvironmentProblem {
  variable: string
  message: string
}

/** The settings; `values` has a variable's `otherwise` wherever there is a problem. */
export interface Reading<T extends VariableTable> {
  values: Values<T>
  problems: EnvironmentProblem[]
}

/** Reads files named by NAME_FILE; throws what node:fs throws. */
export type ReadText = (path: string) => string

/** Larger than any key, certificate or list in a variable. Bytes. */
const FILE_BYTES_MAX = 1_048_576

/** Reads all variables of the table. Never throws for invalid values. */
export function readEnvironment<const T extends VariableTable>(
  table: T,
  env: Environment,
  readText: ReadText = readRegularFile,
): Reading<T> {
  const problems: EnvironmentProblem[] = []
  const values: Record<string, unknown> = {}
  for (const [name, variable] of Object.entries(table)) {
    const read = valueOf(name, variable, env, readText)
    if ('problem' in read) problems.push({ variable: name, message: read.problem })
    values[name] = 'value' in read ? read.value : variable.otherwise
  }
  return { values: values as Values<T>, problems }
}

type Read = { value: unknown } | { problem: string }

function valueOf(
  name: string,
  variable: Variable<unknown>,
  env: Environment,
  readText: ReadText,
): Read {
  const spelling = [name, ...(variable.alsoAs ?? [])].find((one) => (env[one] ?? '') !== '')
  const path = variable.fromFile === false ? '' : (env[`${name}_FILE`] ?? '')
  if (spelling !== undefined && path !== '') {
    return { problem: `${spelling} and ${name}_FILE are both set; keep one of them` }
  }
  if (path !== '') return fromFile(name, path, variable, readText)
  if (spelling === undefined) return { value: variable.otherwise }
  return parsed(spelling, env[spelling] ?? '', variable)
}

/** A pipe could block forever, and a device never end. */
function readRegularFile(path: string): string {
  const facts = statSync(path)
  if (!facts.isFile() && !facts.isDirectory()) throw new Error('it is not a regular file')
  if (facts.size > FILE_BYTES_MAX) throw new Error(`it is larger than ${FILE_BYTES_MAX} bytes`)
  return readFileSync(path, 'utf8')
}

function fromFile(name: string, path: string, variable: Variable<unknown>, readText: ReadText) {
  let text: string
  try {
    text = readText(path)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    // A message of the system quotes the path.
    const why =
      code === undefined ? message : (READ_PROBLEMS[code] ?? `it cannot be read (${code})`)
    return { problem: `${name}_FILE is ${shownPath(path)}: ${why}; name a file that can be read` }
  }
  // Editors and `echo` end a file with a newline that is no part of the value.
  const value = text.replace(/\r?\n$/, '')
  if (value === '') {
    const fix = 'the file is empty; write the value into it'
    return { problem: `${name}_FILE is ${shownPath(path)}: ${fix}` }
  }
  return parsed(name, value, variable, `${name}_FILE (${shownPath(path)}) contains`)
}

const READ_PROBLEMS: Readonly<Record<string, string>> = {
  ENOENT: 'the file does not exist',
  EACCES: 'permission denied',
  EISDIR: 'it is a folder',
}

function parsed(
  name: string,
  text: string,
  variable: Variable<unknown>,
  lead = `${name} is`,
): Read {
  const result = variable.parse(text.trim())
  if ('value' in result) return result
  const value = variable.secret === true ? '"***"' : shown(text)
  return { problem: `${lead} ${value}: must be ${result.allowed}; ${result.fix}` }
}

/**
 * The text without credentials: what precedes the last `@`, also where the scheme of the URL is missing, and its
 * parameters.
 */
export function withoutCredentials(text: string): string {
  return withoutUser(text).replace(/\?[^?=\s]*=.*$/s, '?…')
}

function withoutUser(text: string): string {
  const at = text.lastIndexOf('@')
  if (at < 0 || !/[:/]/.test(text.slice(0, at))) return text
  const [scheme = ''] = /^[a-z][\w+.-]*:\/\//i.exec(text) ?? []
  return `${scheme}…${text.slice(at)}`
}

/** A value as a message shows it: quoted, on one line, cut when long, without credentials. */
function shown(given: string): string {
  const text = withoutCredentials(given)
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text)
}

/**
 * A path as a message shows it. Somebody may have put the value itself there, so a text without `/` or `./` in front is
 * shown only where there is a file.
 */
export function shownPath(path: string): string {
  const isPath = /^\.{0,2}\//.test(path) || existsSync(path)
  return isPath ? shown(path) : 'a path at which there is no file (not shown)'
}

/** A variable as help and documentation show it. */
export interface VariableText {
  name: string
  default: string
  meaning: string
}

/** The rows of a table of variables, for help and documentation. */
export function variableTexts(table: VariableTable): VariableText[] {
  return Object.entries(table).map(([name, { shownDefault, unit, meaning }]) => {
    const withUnit = unit === undefined || !/^\d+$/.test(shownDefault) ? '' : ` ${unit}`
    return { name, default: `${shownDefault}${withUnit}`, meaning }
  })
}

/** All problems as one text, a line each. */
export function problemText(problems: readonly EnvironmentProblem[], topic: string): string {
  const count = problems.length === 1 ? 'a problem' : `${problems.length} problems`
  const lines = problems.map(({ message }) => `  ${message}`)
  return `${count} in the environment:\n${lines.join('\n')}\n${seeHelp([topic])}`
}
