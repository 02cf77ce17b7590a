// The variables of a monitors file: `variables` with their values in it, `secrets` with their values
// in the environment.
import { dirname, resolve } from 'node:path'
import { SECRET_TOO_LONG } from '../../contract/definition-secrets.ts'
import { Variable } from '../../contract/monitor.ts'
import { LIMITS } from '../../contract/versions.ts'
import { type Environment, shownPath } from '../../process/env.ts'
import { got, type Findings } from './problems.ts'
import { isFields } from './shorthands.ts'
import { readText } from './text.ts'

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,254}$/
const NAME_RULE = 'a name has letters, digits and _ only, and does not begin with a digit'
const SECRET_BYTES_MAX = 1_048_576
const VARIABLE_SHAPE = 'must be {key: NAME, value: text}, optionally with locked and secret'

/** What `variables` and `secrets` come to. */
export interface FileVariables {
  variables: Variable[]
  /** Names whose value is no good: a finding says why, and no use of them needs another one. */
  unusable: ReadonlySet<string>
  /** Files that values came from. */
  files: string[]
}

/**
 * Reads both; findings report invalid names and values. The variables that the program gives
 * come first, so that the file's own of the same name replace them.
 */
export async function readVariables(
  file: Readonly<Record<string, unknown>>,
  env: Environment,
  given: readonly Variable[],
  findings: Findings,
): Promise<FileVariables> {
  const found = new Map(given.map((one) => [one.key, one]))
  const files: string[] = []
  const unusable = new Set<string>()
  for (const one of plainVariables(file['variables'], findings, unusable)) found.set(one.key, one)
  for (const [index, name] of secretNames(file['secrets'], findings).entries()) {
    if (name === undefined) continue
    const value = await secretValue(name, env, files)
    const problem = 'problem' in value ? value.problem : lengthProblem(name, value.text)
    if (problem !== undefined) {
      findings.push({ path: ['secrets', index], message: problem })
      unusable.add(name)
    } else if ('text' in value) {
      found.set(name, { key: name, value: value.text, locked: true, secret: true })
    }
  }
  if (found.size > LIMITS.variablesMax) {
    const message = `at most ${LIMITS.variablesMax} variables and secrets (got ${found.size})`
    findings.push({ path: ['variables'], message })
  }
  return { variables: [...found.values()], unusable, files }
}

function lengthProblem(name: string, secret: string): string | undefined {
  return secret.length > LIMITS.secretCharactersMax ? `${name}: ${SECRET_TOO_LONG}` : undefined
}

function plainVariables(given: unknown, findings: Findings, unusable: Set<string>): Variable[] {
  if (given === undefined || given === null) return []
  if (Array.isArray(given)) return listedVariables(given, findings, unusable)
  if (!isFields(given)) {
    const message = 'must be a mapping of names to values, like HOST: example.com'
    findings.push({ path: ['variables'], message })
    return []
  }
  return Object.entries(given).flatMap(([key, value]) => {
    const path = ['variables', key]
    if (!NAME.test(key)) findings.push({ path, message: NAME_RULE, atKey: true })
    else if (['string', 'number', 'boolean'].includes(typeof value)) {
      return [{ key, value: String(value), locked: false, secret: false }]
    } else findings.push({ path, message: 'must be a string, a number, or true or false' })
    unusable.add(key)
    return []
  })
}

/** The wire form: `{key, value, locked, secret}`. */
function listedVariables(given: unknown[], findings: Findings, unusable: Set<string>): Variable[] {
  return given.flatMap((one, index) => {
    const parsed = Variable.safeParse(one)
    if (parsed.success) return [parsed.data]
    const custom = parsed.error.issues.find(({ code }) => code === 'custom')
    findings.push({ path: ['variables', index], message: custom?.message ?? VARIABLE_SHAPE })
    if (isFields(one)) unusable.add(one['key'] as string)
    return []
  })
}

function secretNames(given: unknown, findings: Findings): (string | undefined)[] {
  if (given === undefined || given === null) return []
  if (!Array.isArray(given)) {
    const message = 'must be a list of names; their values come from the environment'
    findings.push({ path: ['secrets'], message })
    return []
  }
  return given.map((name: unknown, index) => {
    if (typeof name === 'string' && NAME.test(name)) return name
    const isText = typeof name === 'string'
    // Somebody may have put the secret itself here, so it is not shown.
    const message = isText ? NAME_RULE : `must be a name${got([], name)}`
    findings.push({ path: ['secrets', index], message })
    return undefined
  })
}

/** The value of a secret: of the variable of its name, or of the file that `<name>_FILE` names. */
export async function secretValue(
  name: string,
  env: Environment,
  files: string[],
): Promise<{ text: string } | { problem: string }> {
  const valueOf = (variable: string) => (Object.hasOwn(env, variable) ? env[variable] : undefined)
  const direct = valueOf(name)
  if (direct !== undefined && direct !== '') return { text: direct }
  const path = valueOf(`${name}_FILE`)
  if (path === undefined || path === '') {
    return { problem: `${name} has no value; set ${name} or ${name}_FILE in the environment` }
  }
  files.push(resolve(path))
  const read = await readText(path, SECRET_BYTES_MAX)
  const lead = `${name}_FILE is ${shownPath(path)}: the file`
  if ('problem' in read) return { problem: `${lead} ${read.problem}` }
  const text = read.text.replace(/\r?\n$/, '')
  return text === '' ? { problem: `${lead} is empty; write the value into it` } : { text }
}

const PEM_BYTES_MAX = 1_048_576

/** File setting of `tls` → the setting that its content becomes. */
export const TLS_FILES = {
  caFile: 'ca',
  certificateFile: 'certificate',
  privateKeyFile: 'privateKey',
} as const

/** Reads the files that `tls` names, each once; paths are relative to the monitors file. */
export function createTlsFiles(monitorsFile: string) {
  const folder = dirname(resolve(monitorsFile))
  const reads = new Map<string, ReturnType<typeof readText>>()
  return {
    /** Absolute paths of the files read. */
    files: () => [...reads.keys()],
    /** A path as the monitors file means it. */
    resolve: (path: string) => resolve(folder, path),
    read(path: string) {
      const whole = resolve(folder, path)
      const pending = reads.get(whole) ?? readText(whole, PEM_BYTES_MAX)
      reads.set(whole, pending)
      return pending
    },
  }
}
export type TlsFiles = ReturnType<typeof createTlsFiles>
