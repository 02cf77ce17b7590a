// `vedette import`: makes a monitors file of the configuration of another tool.
import { access, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import {
  formatPath,
  formatProblem,
  type Finding,
  type Path,
  type Problem,
} from '../../agent/monitors-file/problems.ts'
import { isFields, type Fields } from '../../agent/monitors-file/shorthands.ts'
import { readText } from '../../agent/monitors-file/text.ts'
import { parseYaml, type ParsedYaml } from '../../agent/monitors-file/yaml.ts'
import { counted } from '../../contract/schema/amounts.ts'
import { DEFINITIONS } from '../../monitors/definitions.ts'
import { LIMITS } from '../../contract/versions.ts'
import { inColumns } from '../../process/columns.ts'
import { EXIT } from '../../process/exit-codes.ts'
import type { Arguments } from '../../process/command-line.ts'
import { importBlackbox } from './blackbox.ts'
import { type ImportedFile, withEnvironment, writeDrafts } from './document.ts'
import { createDrafts, type Drafts } from './drafts.ts'
import { importGatus } from './gatus.ts'
import { readTargets } from './scrape-targets.ts'
import { importUptimeKuma } from './uptime-kuma.ts'

/** Where the command writes to. */
export interface ImportOutput {
  write: (text: string) => void
  complain: (text: string) => void
}

/** A file that was read. */
interface Source {
  path: string
  yaml: ParsedYaml
}

/** Runs the command; resolves with its exit code. */
export async function runImport(
  args: Arguments,
  { write, complain }: ImportOutput,
): Promise<number> {
  const fail = (message: string) => {
    complain(`vedette import: ${message}\n`)
    return EXIT.configuration
  }
  const [path] = args.positionals
  if (path === undefined) return fail('name the file to import')
  const output = args.value('output')
  if (output !== undefined && (await exists(output)))
    return fail(`${output} exists; name another file`)
  const source = await read(path)
  if (typeof source === 'string') return fail(source)
  if (isMonitorsFile(source.yaml.value))
    return fail(`${path} is a monitors file already; check it by vedette validate`)
  const format = args.value('from') ?? formatOf(source.yaml.value)
  const targets = args.value('targets')
  const all = createDrafts(dirname(resolve(path)))
  const sources = [source]
  const problem =
    format === 'blackbox'
      ? await fromBlackbox(all, sources, targets)
      : convert(all, source.yaml.value, format)
  if (problem !== undefined) return fail(problem)
  if (targets !== undefined && format !== 'blackbox')
    return fail('--targets is for blackbox alone; leave it out')
  const file = await writeDrafts(all, output ?? path)
  const isPartial = args.on('partial')
  complain(report(all, sources, file))
  if (Array.isArray(file)) return EXIT.configuration
  const refused = all.refusals.count()
  if (refused > 0 && !isPartial) {
    return fail(
      `${counted(refused, 'option')} refused, nothing written; --partial writes the other monitors`,
    )
  }
  if (file.monitors === 0) return fail('there is no monitor to write')
  const text = `# From ${path}, by vedette import.\n${file.text}`
  if (output === undefined) write(text)
  else {
    const unwritten = await writeNew(output, text)
    if (unwritten !== undefined) return fail(unwritten)
  }
  complain(
    `vedette import: ${counted(file.monitors, 'monitor')}${output === undefined ? '' : ` in ${output}`}\n`,
  )
  return 0
}

const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  )

/** Writes a file that does not exist yet; a text is why that cannot be done. */
const writeNew = (path: string, text: string): Promise<string | undefined> =>
  writeFile(path, text, { flag: 'wx' }).then(
    () => undefined,
    (error: NodeJS.ErrnoException) =>
      `${path} cannot be written: ${error.message}; name a new file in a folder that you can write to`,
  )

/** The file, or what is wrong with it. */
async function read(path: string): Promise<Source | string> {
  const text = await readText(path, LIMITS.monitorsFileBytesMax)
  if ('problem' in text) return `${path} ${text.problem}`
  const yaml = await parseYaml(text.text)
  const [first] = yaml.problems
  if (first !== undefined) return formatProblem({ file: path, path: '', ...first })
  return isFields(yaml.value) ? { path, yaml } : `${path} is neither a mapping nor a list`
}

const FORMATS = ['blackbox', 'gatus', 'uptime-kuma']

/** The format, by what only files of it have. */
function formatOf(value: unknown): string | undefined {
  if (!isFields(value)) return undefined
  if (isFields(value['modules'])) return 'blackbox'
  if (['endpoints', 'external-endpoints', 'suites'].some((key) => Array.isArray(value[key])))
    return 'gatus'
  return kumaMonitors(value).length > 0 ? 'uptime-kuma' : undefined
}

/** Types of Uptime Kuma are in small letters. */
function isMonitorsFile(value: unknown): boolean {
  const monitors = isFields(value) ? value['monitors'] : undefined
  return (
    Array.isArray(monitors) &&
    monitors.some(
      (one) => isFields(one) && DEFINITIONS.has(String(one['checkType'] ?? one['type'])),
    )
  )
}

/** A backup has a list, the API a list or a mapping by id. */
function kumaMonitors(value: Fields): [Path, unknown][] {
  const key = ['monitorList', 'monitors'].find((one) => Object.hasOwn(value, one))
  const list = key === undefined ? value : value[key]
  if (typeof list !== 'object' || list === null) return []
  const before = key === undefined ? [] : [key]
  const entries = Array.isArray(list) ? [...list.entries()] : Object.entries(list)
  return entries
    .filter(([, one]) => isFields(one) && typeof one['type'] === 'string')
    .map(([index, one]) => [[...before, index], one])
}

function convert(all: Drafts, value: unknown, format: string | undefined): string | undefined {
  const fields = isFields(value) ? value : {}
  if (format === 'gatus') importGatus(all, withEnvironment(all, fields) as Fields)
  else if (format === 'uptime-kuma') importUptimeKuma(all, kumaMonitors(fields))
  else if (format === undefined && Object.hasOwn(fields, 'scrape_configs')) {
    return 'this is the configuration of Prometheus; import blackbox.yml, and name this one by --targets'
  } else return `unknown format: name the tool by --from ${FORMATS.join(', --from ')}`
  return undefined
}

async function fromBlackbox(
  all: Drafts,
  sources: Source[],
  given: string | undefined,
): Promise<string | undefined> {
  const [source] = sources as [Source]
  const path = given ?? join(dirname(source.path), 'prometheus.yml')
  if (given === undefined && !(await exists(path))) {
    return 'the targets are in the configuration of Prometheus; name it by --targets'
  }
  const prometheus = await read(path)
  if (typeof prometheus === 'string') return prometheus
  sources.push(prometheus)
  const { targets, problems } = readTargets(prometheus.yaml.value as Fields)
  for (const problem of problems) all.refusals.push(problem)
  if (targets.length === 0 && problems.length === 0)
    return `${path} has no target of blackbox_exporter`
  const { modules } = source.yaml.value as Fields
  importBlackbox(all, isFields(modules) ? modules : {}, targets)
  return undefined
}

/** What the user has to know: refused and left out options, and secrets to set. */
function report(
  { refusals, notes }: Drafts,
  sources: readonly Source[],
  file: ImportedFile | Problem[],
): string {
  const placed = (kind: string, { path, message, atKey = false }: Finding) => {
    // The targets, where there are any, were read last.
    const { path: name, yaml } = sources.at(path[0] === 'scrape_configs' ? -1 : 0) as Source
    return `${kind}: ${formatProblem({ file: name, path: formatPath(path), message, ...yaml.locate(path, atKey) })}`
  }
  const lines = [
    ...refusals.reported().map((one) => placed('refused', one)),
    ...notes.reported().map((one) => placed('note', one)),
    ...(Array.isArray(file) ? file.map((one) => `refused: ${formatProblem(one)}`) : []),
  ]
  if (!Array.isArray(file) && file.secrets.length > 0) {
    lines.push('Set these in the environment, each as NAME or NAME_FILE:')
    const rows = file.secrets.map(({ name, from }) => [
      `  ${name}`,
      from ?? 'its value is in the source',
    ])
    lines.push(...inColumns(rows))
  }
  return lines.map((line) => `${line}\n`).join('')
}
