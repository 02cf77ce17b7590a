// `vedette import`: makes a monitors file of the configuration of another tool.
import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
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
import { LIMITS } from '../../contract/versions.ts'
import { inColumns } from '../../process/columns.ts'
import { CHECK_TYPES } from '../../monitors/definitions.ts'
import { EXIT } from '../../process/exit-codes.ts'
import { seeHelp } from '../../process/see-help.ts'
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
  fields: Fields
  yaml: ParsedYaml
}

/** Nothing can be written; the message says why. */
class ImportError extends Error {}

/** Runs the command; resolves with its exit code. */
export async function runImport(args: Arguments, output: ImportOutput): Promise<number> {
  try {
    await importFile(args, output)
    return EXIT.ok
  } catch (error) {
    if (!(error instanceof ImportError)) throw error
    output.complain(`vedette import: ${error.message}\n${seeHelp(['coming-from'])}`)
    return EXIT.configuration
  }
}

async function importFile(args: Arguments, { write, complain }: ImportOutput): Promise<void> {
  const [path = ''] = args.positionals
  const output = args.value('output')
  const source = await read(path)
  const all = createDrafts(dirname(resolve(path)))
  const sources = [source, ...(await convert(all, source, args))]
  const file = await writeDrafts(all, output ?? path)
  complain(report(all, sources, file))
  if (Array.isArray(file)) throw new ImportError('nothing written')
  const refused = all.refusals.count()
  if (refused > 0 && !args.on('partial')) {
    throw new ImportError(
      `${counted(refused, 'option')} refused, nothing written; --partial writes the other monitors`,
    )
  }
  if (file.monitors === 0) throw new ImportError('there is no monitor to write')
  const text = `# From ${path}, by vedette import.\n${file.text}`
  if (output === undefined) write(text)
  else await writeNew(output, text)
  const where = output === undefined ? '' : ` in ${output}`
  complain(`vedette import: ${counted(file.monitors, 'monitor')}${where}\n`)
}

const UNWRITTEN: Readonly<Record<string, string>> = {
  EEXIST: 'it exists already',
  ENOENT: 'its folder does not exist',
  ENOTDIR: 'its folder is a file',
  EACCES: 'permission denied',
}

/** Writes a file that does not exist yet. */
const writeNew = (path: string, text: string): Promise<void> =>
  writeFile(path, text, { flag: 'wx' }).catch(({ code = '' }: NodeJS.ErrnoException) => {
    const fix = 'name a new file in a folder that you can write to'
    throw new ImportError(`${path} cannot be written: ${UNWRITTEN[code] ?? code}; ${fix}`)
  })

async function read(path: string): Promise<Source> {
  const text = await readText(path, LIMITS.monitorsFileBytesMax)
  if ('problem' in text) throw new ImportError(`${path} ${text.problem}`)
  const yaml = await parseYaml(text.text)
  const [first] = yaml.problems
  if (first !== undefined) {
    throw new ImportError(formatProblem({ file: path, path: '', ...first }))
  }
  if (!isFields(yaml.value)) throw new ImportError(`${path} is neither a mapping nor a list`)
  return { path, fields: yaml.value, yaml }
}

/** What only files of a format have. */
const FORMATS: Readonly<Record<string, (fields: Fields) => boolean>> = {
  blackbox: ({ modules }) => isFields(modules),
  gatus: (fields) =>
    ['endpoints', 'external-endpoints', 'suites'].some((key) => Array.isArray(fields[key])),
  'uptime-kuma': (fields) => kumaMonitors(fields).length > 0,
}

/** The format of the file: the first that it fits, or the one that is asked for. */
function formatOf({ path, fields }: Source, asked: string | undefined): string {
  const names = Object.keys(FORMATS)
  if (asked !== undefined && !names.includes(asked)) {
    throw new ImportError(
      `--from must be one of ${names.join(', ')} (got ${JSON.stringify(asked)})`,
    )
  }
  if (isMonitorsFile(fields)) {
    throw new ImportError(`${path} is a monitors file already; check it with vedette validate`)
  }
  const fitting = names.filter((name) => FORMATS[name]?.(fields))
  const format = fitting.find((name) => asked === undefined || name === asked)
  if (format !== undefined) return format
  if (Object.hasOwn(fields, 'scrape_configs')) {
    throw new ImportError(
      'this is the configuration of Prometheus; import blackbox.yml, and name this one by --targets',
    )
  }
  const fix =
    fitting.length === 0
      ? 'blackbox has modules, gatus endpoints, uptime-kuma a monitorList'
      : `it is one of ${fitting.join(', ')}; leave --from out`
  throw new ImportError(`${path} is not a file of ${asked ?? names.join(', ')}: ${fix}`)
}

/** Whether the monitors are those of Vedette: no other tool has such types. */
function isMonitorsFile({ monitors }: Fields): boolean {
  const types = (Array.isArray(monitors) ? monitors : []).map((one: unknown) =>
    isFields(one) ? (one['checkType'] ?? one['type']) : undefined,
  )
  return types.some((type) => CHECK_TYPES.some((one) => one === type))
}

/** A backup has a list, the API a list or a mapping by id. */
function kumaMonitors(fields: Fields): [Path, Fields][] {
  const key = ['monitorList', 'monitors'].find((one) => Object.hasOwn(fields, one))
  const list = key === undefined ? fields : fields[key]
  if (typeof list !== 'object' || list === null) return []
  const before = key === undefined ? [] : [key]
  const entries = Array.isArray(list) ? [...list.entries()] : Object.entries(list)
  return entries.flatMap(([index, one]): [Path, Fields][] =>
    isFields(one) && typeof one['type'] === 'string' ? [[[...before, index], one]] : [],
  )
}

/** Makes the drafts; resolves with the further files that were read for them. */
async function convert(all: Drafts, source: Source, args: Arguments): Promise<Source[]> {
  const { fields } = source
  const format = formatOf(source, args.value('from'))
  const targets = args.value('targets')
  if (format === 'blackbox') return [await fromBlackbox(all, source, targets)]
  if (targets !== undefined) {
    throw new ImportError('--targets is for blackbox alone; leave it out')
  }
  if (format === 'gatus') importGatus(all, withEnvironment(all, fields) as Fields)
  else importUptimeKuma(all, kumaMonitors(fields))
  return []
}

async function fromBlackbox(
  all: Drafts,
  { path, fields: { modules } }: Source,
  given: string | undefined,
): Promise<Source> {
  const targetsPath = given ?? join(dirname(path), 'prometheus.yml')
  if (given === undefined && !existsSync(targetsPath)) {
    throw new ImportError(
      'the targets are in the configuration of Prometheus; name it by --targets',
    )
  }
  const prometheus = await read(targetsPath)
  const { targets, problems } = readTargets(prometheus.fields)
  for (const problem of problems) all.refusals.push(problem)
  if (targets.length === 0 && problems.length === 0) {
    throw new ImportError(`${targetsPath} has no target of blackbox_exporter`)
  }
  importBlackbox(all, isFields(modules) ? modules : {}, targets)
  return prometheus
}

/** What the user has to know: refused and left out options, and secrets to set. */
function report(
  { refusals, notes }: Drafts,
  sources: readonly Source[],
  written: ImportedFile | Problem[],
): string {
  const placed = (kind: string, { path, message, atKey = false }: Finding) => {
    // The targets, where there are any, were read last.
    const { path: file, yaml } = sources.at(path[0] === 'scrape_configs' ? -1 : 0) as Source
    return `${kind}: ${formatProblem({ file, path: formatPath(path), message, ...yaml.locate(path, atKey) })}`
  }
  const lines = [
    ...refusals.reported().map((one) => placed('refused', one)),
    ...notes.reported().map((one) => placed('note', one)),
    ...(Array.isArray(written) ? written.map((one) => `refused: ${formatProblem(one)}`) : []),
  ]
  if (!Array.isArray(written) && written.secrets.length > 0) {
    lines.push('Set these in the environment, each as NAME or NAME_FILE:')
    const rows = written.secrets.map(({ name, from }) => [
      `  ${name}`,
      from ?? 'its value is in the source',
    ])
    lines.push(...inColumns(rows))
  }
  return lines.map((line) => `${line}\n`).join('')
}
