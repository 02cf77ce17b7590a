// Writes the drafts of an import as a monitors file, after the check that `vedette validate` makes.
import { stringify } from 'yaml'
import { slugOf } from '../../agent/monitors-file/definition.ts'
import { readMonitorsText } from '../../agent/monitors-file/file.ts'
import type { Problem } from '../../agent/monitors-file/problems.ts'
import { isFields, type Fields } from '../../agent/monitors-file/shorthands.ts'
import { MONITOR_TYPES } from '../../monitors/registry.ts'
import { type Draft, type Drafts, type NamedSecret, refuse } from './drafts.ts'
import { textOf } from './values.ts'

/** The file, and the secrets that its environment must have. */
export interface ImportedFile {
  text: string
  monitors: number
  secrets: NamedSecret[]
}

/** Stands for a secret whose value the source does not have. */
const PLACEHOLDER = 'placeholder'

/**
 * The file of all drafts that are not refused. Each is checked first; one with a problem is refused. `path` is where the
 * file will be. Problems of the file as a whole are what such a check may still find.
 */
export async function writeDrafts(all: Drafts, path: string): Promise<ImportedFile | Problem[]> {
  const check = async (monitors: readonly Fields[]) => {
    const used = secretsOf(all, monitors)
    const secrets = used.length === 0 ? {} : { secrets: used.map(({ name }) => name) }
    const text = stringify({ ...secrets, monitors }, { lineWidth: 0 })
    const env = Object.fromEntries(used.map(({ name, value }) => [name, value ?? PLACEHOLDER]))
    const read = await readMonitorsText(text, path, env, MONITOR_TYPES)
    return { text, secrets: used, problems: read.ok ? [] : read.problems }
  }
  const ids = new Set<string>()
  const monitors: Fields[] = []
  for (const draft of all.monitors) {
    if (draft.isRefused) continue
    const definition = definitionOf(draft, ids)
    const { problems } = await check([definition])
    for (const problem of problems) refuse({ all, draft, path: draft.path }, messageOf(problem))
    if (problems.length === 0) monitors.push(definition)
  }
  const { text, secrets, problems } = await check(monitors)
  return problems.length > 0 ? problems : { text, monitors: monitors.length, secrets }
}

/** Without the value, which may hold a secret that nothing tells from other text. */
function messageOf({ path, message }: Problem): string {
  const place = path.replace(/^monitors\[0\]\.?/, '')
  return `${place === '' ? '' : `${place}: `}${message.replace(/ \(got .*\)$/s, '')}`
}

function definitionOf({ type, fields, request, assertions }: Draft, ids: Set<string>): Fields {
  const { name, every, ...others } = fields
  const slug = slugOf(String(name))
  let id = slug
  for (let number = 2; ids.has(id); number++) id = `${slug}-${number}`
  ids.add(id)
  const lines = assertions.length === 0 ? {} : { assertions: assertions.map(lineOf) }
  const head = id === slug ? { name } : { id, name }
  return { ...head, type, every, ...others, request: { ...request, ...lines } }
}

/** An assertion on one line, where it needs no quotes there. */
function lineOf(assertion: Fields): unknown {
  const { source, property = '', comparison, target, regex } = assertion
  const isPlain =
    regex === undefined &&
    /^[\w$.\-[\]]*$/.test(String(property)) &&
    (target === undefined || /^[\w.:/+-]+$/.test(textOf(target)))
  if (isPlain)
    return [source, property, comparison, target]
      .filter((one) => one !== undefined && one !== '')
      .join(' ')
  return { ...assertion, ...(target === undefined ? {} : { target: textOf(target) }) }
}

/** The secrets that the definitions refer to, in the order of their names' first use. */
function secretsOf(all: Drafts, definitions: readonly Fields[]): NamedSecret[] {
  const names = JSON.stringify(definitions).matchAll(/\{\{(\w+)\}\}/g)
  const used = new Set([...names].map(([, name = '']) => name))
  return [...used].flatMap((name) => all.secrets.get(name) ?? [])
}

/** The value with references to gatus' environment (`$NAME`, `${NAME}`, `$$`) as references to secrets. */
export function withEnvironment(all: Drafts, value: unknown): unknown {
  if (typeof value === 'string') {
    return value.replaceAll(
      /\$(?:(\$)|(\w+)|\{(\w+)\})/g,
      (_, dollar?: string, plain?: string, braced?: string) => {
        const name = plain ?? braced ?? ''
        if (dollar !== undefined) return '$'
        all.secrets.set(name, { name, value: undefined, from: 'the environment, as before' })
        return `{{${name}}}`
      },
    )
  }
  if (Array.isArray(value)) return value.map((one) => withEnvironment(all, one))
  if (!isFields(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => [key, withEnvironment(all, one)]),
  )
}
