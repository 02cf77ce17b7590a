// The monitors file: the public API's monitor objects in YAML, with a few shorthands. Everything that
// is wrong with a file is found at once, each problem with its line, the value and the fix.
import { resolve } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { DEFINITIONS } from '../../monitors/definitions.ts'
import { createScrubber } from '../redaction/scrub.ts'
import { secretWarnings } from '../../contract/definition-secrets.ts'
import type { Monitor, Variable } from '../../contract/monitor.ts'
import { LIMITS } from '../../contract/versions.ts'
import type { Environment } from '../../process/env.ts'
import {
  readDefinition,
  slugOf,
  type FileContext,
  type KnownType,
  type Purpose,
} from './definition.ts'
import { type FileGroups, readGroups } from './groups.ts'
import {
  createFindings,
  formatPath,
  got,
  PROBLEMS_MAX,
  type Findings,
  type Path,
  type Problem,
} from './problems.ts'
import { isFields, type Fields } from './shorthands.ts'
import { readText } from './text.ts'
import {
  defaultsOf,
  locationOf,
  privateLocationsOf,
  proxyOf,
  reportUnknownKeys,
} from './top-fields.ts'
import { createTlsFiles, readVariables } from './variables.ts'
import { parseYaml, type ParsedYaml, type SyntaxProblem } from './yaml.ts'

/** What a good file says. */
export interface LoadedFile {
  /** Only where the file names it. */
  location?: string
  /** Slugs of locations for monitors that name none, on a platform; over `location`. */
  privateLocations: string[]
  /** Proxy for all checks, `http://user:password@host:port`. */
  proxyUrl?: string
  /** The file's variables, its secrets with their values, and those that the program gave. */
  variables: Variable[]
  groups: FileGroups
  /** In the order of the file, with variables still as `{{NAME}}` in their own fields; ids are unique. */
  monitors: Monitor[]
  /** Id of a monitor → key of its group. Empty when groups are counted in. */
  groupOf: ReadonlyMap<string, string>
  /** Worth a line in the log, but no reason to stop. */
  warnings: Problem[]
  /** Says of what is found later where in the file it is. */
  locate: (findings: Findings) => Problem[]
}

/** A file that was read; `files` are all that it was made of, as absolute paths. */
export type ReadFile = { files: string[] } & (
  { ok: true; file: LoadedFile } | { ok: false; problems: Problem[] }
)

const LOOKS_LIKE =
  'write a list of monitors, like\n' +
  '    monitors:\n' +
  '      - name: Home page\n' +
  '        type: URL\n' +
  '        every: 1m\n' +
  '        request: { url: "https://example.com/" }'

/**
 * Reads and checks a monitors file against the types of monitor that can be run. `variables` are known
 * to it in addition to its own. Yields to other work while it reads a large file. Never rejects for the content
 * of a file, or for a missing one.
 */
export function readMonitorsFile(
  path: string,
  env: Environment,
  types: ReadonlyMap<string, KnownType>,
  variables: readonly Variable[] = [],
): Promise<ReadFile> {
  return readFor({ purpose: 'run', path, env, types, variables })
}

/**
 * The same for a file that is applied on a platform: every type that can be defined is good, whether this agent runs
 * it or not, and monitors are as they are defined, without what their groups hand on.
 */
export function readFileToApply(
  path: string,
  env: Environment,
  variables: readonly Variable[] = [],
): Promise<ReadFile> {
  return readFor({ purpose: 'apply', path, env, types: DEFINITIONS, variables })
}

/** Reads and checks the text of a file that is not written yet. `path`: where it will be. */
export function readMonitorsText(
  text: string,
  path: string,
  env: Environment,
  types: ReadonlyMap<string, KnownType>,
): Promise<ReadFile> {
  return readTextFor(text, { purpose: 'run', path, env, types, variables: [] })
}

/** What is to be read, and what for. */
interface Order {
  purpose: Purpose
  path: string
  env: Environment
  types: ReadonlyMap<string, KnownType>
  variables: readonly Variable[]
}

async function readFor(order: Order): Promise<ReadFile> {
  const read = await readText(order.path, LIMITS.monitorsFileBytesMax)
  return 'problem' in read ? refused(order.path, read.problem) : readTextFor(read.text, order)
}

/** A file that is wrong as a whole. */
function refused(path: string, message: string): ReadFile {
  return { ok: false, problems: [{ file: path, path: '', message }], files: [resolve(path)] }
}

async function readTextFor(text: string, order: Order): Promise<ReadFile> {
  const { path } = order
  const files = [resolve(path)]
  const refuse = (message: string) => refused(path, message)
  const yaml = await parseYaml(text)
  const placed = (problems: SyntaxProblem[]) =>
    problems.map((one) => ({ file: path, path: '', ...one }))
  if (yaml.problems.length > 0) {
    const { length } = yaml.problems
    return { ok: false, problems: bounded(placed(yaml.problems), length, path), files }
  }
  if (yaml.value === null || yaml.value === undefined) return refuse(`is empty; ${LOOKS_LIKE}`)
  if (!isFields(yaml.value)) return refuse(`contains no monitors; ${LOOKS_LIKE}`)
  const findings = createFindings()
  const warnings = createFindings()
  const { content, secrets, named } = await readFields(yaml.value, { ...order, findings, warnings })
  files.push(...named)
  const locate = (found: Findings) => located(found, { name: path, yaml, secrets })
  if (findings.count() > 0) return { ok: false, problems: locate(findings), files }
  const all = [...placed(yaml.warnings), ...locate(warnings)]
  return { ok: true, file: { ...content, warnings: all, locate }, files }
}

interface Reading extends Order {
  findings: Findings
  warnings: Findings
}

async function readFields(top: Fields, reading: Reading) {
  const { findings, warnings, types, purpose } = reading
  reportUnknownKeys(top, findings)
  const given = await readVariables(top, reading.env, reading.variables, findings)
  const location = locationOf(top, findings)
  const privateLocations = privateLocationsOf(top, findings)
  const proxyUrl = proxyOf(top, given, findings)
  const defaults = defaultsOf(top, findings)
  const groups = readGroups(top['groups'], findings)
  const tlsFiles = createTlsFiles(reading.path)
  const defaultsAsWritten = isFields(top['defaults']) ? top['defaults'] : {}
  const { variables, unusable } = given
  const groupOf = new Map<string, string>()
  const common = { purpose, defaults, defaultsAsWritten, groups, groupOf, types, tlsFiles }
  const monitors = await readMonitors(top, { ...common, variables, unusable, findings, warnings })
  warnOfShortSecrets(variables, monitors, warnings)
  if (purpose === 'apply' && proxyUrl !== undefined) {
    const message = 'is not applied: on a platform it is a setting of the private location'
    warnings.push({ path: ['proxyUrl'], message })
  }
  const content: Omit<LoadedFile, 'warnings' | 'locate'> = {
    ...(location === undefined ? {} : { location }),
    ...(proxyUrl === undefined ? {} : { proxyUrl }),
    privateLocations,
    variables,
    groups,
    monitors,
    groupOf,
  }
  const secrets = variables.filter((one) => one.secret).map((one) => one.value)
  return { content, secrets, named: [...given.files, ...tlsFiles.files()] }
}

/** Short secrets stay visible in results, which their author should know. */
function warnOfShortSecrets(
  variables: readonly Variable[],
  monitors: readonly Monitor[],
  warnings: Findings,
): void {
  for (const message of secretWarnings(variables)) warnings.push({ path: ['secrets'], message })
  for (const [index, monitor] of monitors.entries()) {
    const path = ['monitors', index, 'environmentVariables']
    for (const message of secretWarnings(monitor.environmentVariables))
      warnings.push({ path, message })
  }
}

/** Definitions checked before other work gets its turn. */
const DEFINITIONS_AT_ONCE = 50

async function readMonitors(top: Fields, around: FileContext): Promise<Monitor[]> {
  const { findings, warnings } = around
  const list = top['monitors']
  const path = ['monitors']
  if (!Object.hasOwn(top, 'monitors')) {
    findings.push({ path: [], message: `contains no monitors; ${LOOKS_LIKE}` })
    return []
  }
  if (!Array.isArray(list) && list !== null) {
    findings.push({ path, message: `must be a list, each entry with a dash${got(path, list)}` })
    return []
  }
  if (list === null || list.length === 0) {
    warnings.push({ path, message: 'is empty: nothing is monitored' })
    return []
  }
  if (list.length > LIMITS.monitorsMax) {
    findings.push({
      path,
      message: `has ${list.length} monitors; at most ${LIMITS.monitorsMax} are allowed`,
    })
    return []
  }
  const monitors: Monitor[] = []
  const firstOf = new Map<string, number>()
  for (const [index, raw] of list.entries()) {
    const read = await readDefinition(raw, index, around)
    const id = read?.id ?? idOf(raw)
    const first = id === undefined ? undefined : firstOf.get(id)
    if (first !== undefined) findings.push(sameId(raw, index, first))
    else if (id !== undefined) firstOf.set(id, index)
    if (read !== undefined) monitors.push(read)
    if (index % DEFINITIONS_AT_ONCE === 0) await nextTurn()
  }
  return monitors
}

/** The id that a definition gives itself or has by its name, good or not otherwise. */
function idOf(raw: unknown): string | undefined {
  if (!isFields(raw)) return undefined
  if (typeof raw['id'] === 'string') return raw['id']
  return typeof raw['name'] === 'string' ? slugOf(raw['name']) : undefined
}

function sameId(raw: unknown, index: number, first: number) {
  const key = isFields(raw) && typeof raw['id'] === 'string' ? 'id' : 'name'
  const path = ['monitors', index, key]
  const other = ['monitors', first]
  const value = isFields(raw) ? got(path, raw[key]) : ''
  const what = key === 'id' ? 'is also the id of' : 'gives the same id as'
  const message = `${what} ${formatPath(other)}; give one of them another id${value}`
  return { path, message, other }
}

interface Places {
  name: string
  yaml: ParsedYaml
  secrets: string[]
}

function located(findings: Findings, { name, yaml, secrets }: Places): Problem[] {
  const lineOf = (path: Path) => yaml.locate(path, false).line
  // In a message, a value may stand as JSON, or cut.
  const scrubber = createScrubber({ secrets })
  const problems = findings
    .reported()
    .slice(0, PROBLEMS_MAX)
    .map(({ path, message, atKey = false, other }) => {
      const also = other === undefined ? '' : ` (the other is on line ${lineOf(other)})`
      const text = scrubber.text(`${message}${also}`)
      const place = { file: name, path: formatPath(path), ...yaml.locate(path, atKey) }
      return { ...place, message: text, ...topicAt(yaml.value, path) }
    })
  return bounded(problems, findings.count(), name)
}

/** The topic of the monitor that the path leads into. */
function topicAt(value: unknown, [list, index]: Path): { topic?: string } {
  const monitors = isFields(value) && list === 'monitors' ? value['monitors'] : undefined
  const raw: unknown =
    Array.isArray(monitors) && typeof index === 'number' ? monitors[index] : undefined
  const type = isFields(raw) ? (raw['checkType'] ?? raw['type']) : undefined
  const topic = DEFINITIONS.get(type as string)?.path
  return topic === undefined ? {} : { topic }
}

/** By line; what is too much is counted in a last line. */
function bounded(problems: Problem[], count: number, file: string): Problem[] {
  const sorted = problems
    .slice(0, PROBLEMS_MAX)
    .toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0))
  const more = count - sorted.length
  if (more <= 0) return sorted
  return [...sorted, { file, path: '', message: `… and ${more} more`, furtherCount: more }]
}
