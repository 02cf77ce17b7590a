// One definition of a monitors file, from what the user wrote to a monitor that the agent can run:
// shorthands, defaults, id, TLS files, variables, schema.
import { createHash } from 'node:crypto'
import type { AnyMonitorType } from '../../monitors/monitor.ts'
import { CHECK_TYPES, effectiveMonitor, isPinged, typeProblem } from '../../monitors/definitions.ts'
import {
  type CheckGroup,
  groupVariables,
  inheritanceProblem,
} from '../../contract/api/check-group.ts'
import { objections } from '../../contract/schema/explain.ts'
import { setsVariables } from '../../contract/http-monitor.ts'
import { Monitor, type Variable } from '../../contract/monitor.ts'
import { substitute, substituteOwn, type Lookup } from '../../contract/variables.ts'
import type { FileGroups } from './groups.ts'
import {
  didYouMean,
  got,
  shown,
  withoutSecrets,
  type Finding,
  type Findings,
  type Path,
} from './problems.ts'
import { type CheckedDefinition, reportObjection } from './objections.ts'
import { readScripts } from './scripts.ts'
import { expandShorthands, isFields, type Fields } from './shorthands.ts'
import { problemOfPath } from './text.ts'
import { TLS_FILES, type TlsFiles } from './variables.ts'

/** A type of monitor, as far as its definition goes. */
export type KnownType = Pick<AnyMonitorType, 'schema' | 'settingsProblem'>

/**
 * `run`: by this agent, so that all variables must be known and groups are counted in. `apply`: on a
 * platform, which may know more variables and stores the groups.
 */
export type Purpose = 'run' | 'apply'

/** What a definition is read with. */
export interface FileContext {
  purpose: Purpose
  /** Fields for every monitor, in the wire form, and as the user wrote them. */
  defaults: Fields
  defaultsAsWritten: Fields
  variables: readonly Variable[]
  /** Names of invalid variables, which a finding already reports. */
  unusable: ReadonlySet<string>
  types: ReadonlyMap<string, KnownType>
  groups: FileGroups
  /** Receives the keys of groups, unless these are counted in. */
  groupOf: Map<string, string>
  tlsFiles: TlsFiles
  findings: Findings
  warnings: Findings
}

/** A definition on its way. */
interface Draft extends CheckedDefinition {
  type: KnownType
  /** What may set variables of the request before it is sent. */
  setUp?: string | undefined
  lookup: Lookup
}

/** The monitor, or undefined when something is wrong with it; findings say what. */
export async function readDefinition(
  raw: unknown,
  index: number,
  around: FileContext,
): Promise<Monitor | undefined> {
  const path = ['monitors', index]
  if (!isFields(raw)) {
    const message = 'must be a monitor: a mapping with name, type and request'
    around.findings.push({ path, message: `${message}${got(path, raw)}` })
    return undefined
  }
  const before = around.findings.count()
  const own = expandShorthands(raw, path, around.findings)
  const fields = withDefaults(around.defaults, own)
  // Without a good name it is the name that is reported, not the id.
  const name = typeof fields['name'] === 'string' ? fields['name'] : 'unnamed'
  fields['id'] ??= slugOf(name)
  const { checkType } = fields
  const type = typeof checkType === 'string' ? around.types.get(checkType) : undefined
  if (type === undefined) {
    around.findings.push(unknownType(fields, raw, path, around))
    return undefined
  }
  await readTlsFiles(fields, path, around)
  if (checkType === 'API') await readScripts(fields, path, around.tlsFiles, around.findings)
  if (around.purpose === 'run') await resolveProject(fields, path, around)
  const group = extractGroup(fields, path, around)
  const inherited = group === undefined ? [] : groupVariables(group.definition)
  const variables = [...inherited, ...around.variables]
  const setUp = setUpScript(fields, group)
  const draft = { raw, path, fields, type, setUp, ...variablesFor(fields, variables) }
  const sound = isSound(draft, around) && (await areSettingsSound(draft, around))
  if (!sound || around.findings.count() !== before) return undefined
  return inGroup(Monitor.parse(fields), group, path, around)
}

interface KnownGroup {
  key: string
  definition: CheckGroup
}

/** Removes the name of a group from the fields, which then are in the wire form. */
function extractGroup(
  fields: Fields,
  path: Path,
  { groups, findings }: FileContext,
): KnownGroup | undefined {
  const key = fields['group']
  delete fields['group']
  if (key === undefined || key === null) return undefined
  const place = [...path, 'group']
  if (typeof key === 'string' && groups.has(key)) {
    const definition = groups.get(key)
    if ((fields['groupId'] ?? null) === null) return definition && { key, definition }
    findings.push({
      path: place,
      message: 'means the same as groupId next to it; keep one of them',
    })
    return undefined
  }
  const known = [...groups.keys()].slice(0, 20).join(', ')
  const all = known === '' ? 'define it under groups' : `known here: ${known}`
  const fix = didYouMean(key, groups.keys()) ?? all
  findings.push({ path: place, message: `unknown group ${shown(key)}; ${fix}` })
  return undefined
}

/** Run here, a monitor gets the settings of its group; a platform receives both and merges them itself. */
function inGroup(
  monitor: Monitor,
  group: KnownGroup | undefined,
  path: Path,
  { purpose, groupOf, findings, warnings }: FileContext,
): Monitor | undefined {
  const effective = effectiveMonitor(monitor, group?.definition)
  const problem = group && inheritanceProblem(effective)
  if (problem !== undefined) {
    findings.push({ path: [...path, 'group'], message: problem })
    return undefined
  }
  if (purpose === 'run') return effective
  if (isUnplaced(effective, group)) {
    const message =
      'only public locations, which a platform of your own does not have: no agent runs it; add privateLocations'
    warnings.push({ path: [...path, 'locations'], message })
  }
  if (group !== undefined) groupOf.set(monitor.id, group.key)
  return monitor
}

/** Whether a monitor names locations, and none that a platform has. Groups of the platform are not known here. */
function isUnplaced(effective: Monitor, group: KnownGroup | undefined): boolean {
  const { groupId, locations, privateLocations, checkType } = effective
  if (isPinged(checkType) || (group === undefined && groupId !== null)) return false
  return (locations ?? []).length > 0 && (privateLocations ?? []).length === 0
}

/** The set-up script of an API monitor, its own or its group's. */
function setUpScript(fields: Fields, group: KnownGroup | undefined): string | undefined {
  const inherited = { ...fields, localSetupScript: group?.definition.localSetupScript }
  const found = [fields, inherited].find(setsVariables)
  return found?.['localSetupScript'] as string | undefined
}

function withDefaults(defaults: Fields, own: Fields): Fields {
  const fields = { ...defaults, ...own }
  // The pair is one setting.
  if (Object.hasOwn(own, 'frequency') && !Object.hasOwn(own, 'frequencyOffset')) {
    delete fields['frequencyOffset']
  }
  if (isFields(defaults['request']) && isFields(own['request'])) {
    fields['request'] = { ...defaults['request'], ...own['request'] }
  }
  return fields
}

/** A name as an id: `Log in (EU)` → `log-in-eu`. Names without Latin letters or digits get a hash. */
export function slugOf(name: string): string {
  const plain = name
    .normalize('NFKD')
    .replaceAll(/\p{Mark}/gu, '')
    .toLowerCase()
  const slug = plain.replaceAll(/[^a-z0-9]+/g, '-').replaceAll(/^-|-$/g, '')
  if (slug !== '') return slug.slice(0, 255)
  return `monitor-${createHash('sha256').update(name).digest('hex').slice(0, 12)}`
}

const TYPE_KEYS = ['type', 'checkType']

/** The problem with the type of a monitor. */
function unknownType(
  fields: Fields,
  raw: Fields,
  path: Path,
  { types, purpose }: FileContext,
): Finding {
  const { checkType } = fields
  const place = [...path, Object.hasOwn(raw, 'checkType') ? 'checkType' : 'type']
  const runnable = [...types.keys()].join(', ')
  if (checkType === undefined) {
    for (const key of Object.keys(fields)) {
      const meant = didYouMean(key, TYPE_KEYS)
      if (meant === undefined) continue
      const at = Object.hasOwn(raw, key) ? path : ['defaults']
      return { path: [...at, key], message: `unknown key; ${meant}`, atKey: true }
    }
    return { path: place, message: `is missing; one of ${runnable}` }
  }
  const known = CHECK_TYPES.find((one) => one === checkType)
  if (known !== undefined && purpose === 'apply') {
    return { path: place, message: typeProblem(known) ?? '' }
  }
  if (known !== undefined) {
    const message = `${known} monitors need a platform (vedette apply); an agent can run ${runnable}`
    return { path: place, message }
  }
  const meant = didYouMean(checkType, types.keys())
  const fix = meant === undefined ? '' : `; ${meant}`
  return { path: place, message: `must be one of ${runnable}${fix}${got(place, checkType)}` }
}

/** The project of a suite stands next to the file that names it. */
async function resolveProject(
  fields: Fields,
  path: Path,
  { tlsFiles, findings }: FileContext,
): Promise<void> {
  const name = fields['codeBundlePath']
  if (typeof name !== 'string' || name === '' || name.startsWith('bundle:')) return
  // What a variable makes of it is known only later; such a path must be absolute.
  if (name.startsWith('{{')) return
  fields['codeBundlePath'] = tlsFiles.resolve(name)
  const problem = name.includes('{{') ? undefined : await problemOfPath(tlsFiles.resolve(name))
  if (problem === undefined) return
  findings.push({ path: [...path, 'codeBundlePath'], message: `${name}: ${problem}` })
}

async function readTlsFiles(fields: Fields, path: Path, around: FileContext): Promise<void> {
  const { request } = fields
  if (!isFields(request) || !isFields(request['tls'])) return
  const tls = { ...request['tls'] }
  for (const [fileKey, key] of Object.entries(TLS_FILES)) {
    if (!Object.hasOwn(tls, fileKey)) continue
    const name = tls[fileKey]
    delete tls[fileKey]
    const place = [...path, 'request', 'tls', fileKey]
    if (typeof name !== 'string') {
      around.findings.push({ path: place, message: 'must be the path of a file' })
    } else if (Object.hasOwn(tls, key)) {
      around.findings.push({ path: place, message: `means the same as ${key}; keep one of them` })
    } else {
      const read = await around.tlsFiles.read(name)
      if ('text' in read) tls[key] = read.text
      // Somebody may have put the key itself there, so the path is not shown.
      else around.findings.push({ path: place, message: `names a file that ${read.problem}` })
    }
  }
  fields['request'] = { ...request, tls }
}

/** A monitor's own variables go before those of the file. */
function variablesFor(fields: Fields, variables: readonly Variable[]) {
  const given = fields['environmentVariables']
  const own = (Array.isArray(given) ? given : []).filter(
    (one): one is Variable =>
      isFields(one) && typeof one['key'] === 'string' && typeof one['value'] === 'string',
  )
  const lookup = (name: string) =>
    (own.find(({ key }) => key === name) ?? variables.find(({ key }) => key === name))?.value
  const secrets = [...own, ...variables].filter((one) => one.secret).map((one) => one.value)
  return { lookup, secrets }
}

/** Checks the draft as it will be run, with its variables put in; settles numbers in it. */
function isSound(draft: Draft, around: FileContext): boolean {
  const { fields, type, lookup } = draft
  const filled = substituteOwn(fields, lookup)
  const unknownAt = filled.unknown.length === 0 ? [] : reportUnknown(draft, around)
  let parsed = type.schema.safeParse(filled.value)
  if (!parsed.success && settleNumbers(draft, filled.value, parsed.error.issues)) {
    parsed = type.schema.safeParse(substituteOwn(fields, lookup).value)
  }
  if (!parsed.success) {
    // As written: a text that a variable stands for is not "without quotes".
    const all = objections(parsed.error, type.schema, fields)
    const sure = all.filter(({ path }) => !unknownAt.includes(path.join('.')))
    for (const objection of sure) reportObjection(objection, draft, around)
    if (sure.length > 0 || (around.purpose === 'run' && draft.setUp === undefined)) return false
  }
  warn(draft, around)
  return unknownAt.length === 0 || around.purpose === 'apply' || draft.setUp !== undefined
}

/** What only a parser of the type finds, in a draft that its schema accepts. */
async function areSettingsSound(draft: Draft, { findings }: FileContext): Promise<boolean> {
  const { fields, path, type, lookup, secrets } = draft
  if (type.settingsProblem === undefined) return true
  const monitor = type.schema.parse(substituteOwn(fields, lookup).value)
  const problem = await type.settingsProblem(monitor)
  if (problem === undefined) return true
  const message = withoutSecrets(problem.message, secrets)
  findings.push({ path: [...path, ...problem.path], message })
  return false
}

const UNKNOWN_FIX: Readonly<Record<Purpose, string>> = {
  run: 'define it under variables or secrets',
  apply: 'the platform has to know it, or define it under variables or secrets',
}

/** Says of each text that holds an unknown variable which one; the places, joined by dots. */
function reportUnknown(draft: Draft, around: FileContext): string[] {
  const { fields, path, lookup, setUp } = draft
  const places: string[] = []
  const known = around.variables.map(({ key }) => key)
  const visit = (value: unknown, at: (string | number)[]) => {
    if (typeof value === 'string') {
      for (const name of substitute(value, lookup).unknown) {
        const place = [...path, ...at]
        const fix = didYouMean(name, known) ?? UNKNOWN_FIX[around.purpose]
        const message = `the variable ${name} is not defined; ${fix}${got(place, value)}`
        // A platform may know it already.
        const isSure = around.purpose === 'run' && setUp === undefined
        const where = isSure ? around.findings : around.warnings
        if (setUp?.includes(name) !== true && !around.unusable.has(name))
          where.push({ path: place, message })
        places.push(at.join('.'))
      }
    } else if (Array.isArray(value)) value.forEach((one, index) => visit(one, [...at, index]))
    else if (isFields(value)) {
      for (const [key, inner] of Object.entries(value)) visit(inner, [...at, key])
    }
  }
  const own = Object.entries(fields).filter(([key]) => !Object.hasOwn(Monitor.shape, key))
  for (const [key, value] of own) visit(value, [key])
  return places
}

/**
 * A text is all that `{{PORT}}` can become, so where the schema wants a number and the text is one,
 * the number is put into the definition now.
 */
function settleNumbers(
  { fields }: Draft,
  filled: Fields,
  issues: readonly { code?: string; path: PropertyKey[] }[],
): boolean {
  let settled = false
  for (const { code, path } of issues) {
    if (code !== 'invalid_type' || path.length !== 2) continue
    const [outer, inner] = path.map(String) as [string, string]
    const [written, meant] = [fields[outer], filled[outer]]
    if (!isFields(written) || !isFields(meant) || written[inner] === meant[inner]) continue
    const text = meant[inner]
    if (typeof text !== 'string' || !/^-?\d{1,15}$/.test(text)) continue
    fields[outer] = { ...(fields[outer] as Fields), [inner]: Number(text) }
    settled = true
  }
  return settled
}

function warn({ fields, path }: Draft, { warnings }: FileContext): void {
  const { degradedResponseTime: degraded, maxResponseTime: max } = fields
  if (typeof degraded === 'number' && typeof max === 'number' && degraded >= max) {
    const message = `is not below maxResponseTime (${max}), so that no run can be degraded`
    warnings.push({ path: [...path, 'degradedResponseTime'], message })
  }
}
