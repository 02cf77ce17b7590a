// What an import makes of a source: monitors as drafts, what is refused, what is left out, and secrets by their names.
import { resolve } from 'node:path'
import * as z from 'zod'
import { slugOf } from '../../agent/monitors-file/definition.ts'
import { createFindings, type Findings, type Path } from '../../agent/monitors-file/problems.ts'
import { isFields, type Fields } from '../../agent/monitors-file/shorthands.ts'
import { decoded, definitionSecrets } from '../../contract/definition-secrets.ts'
import { jsonOf } from '../../contract/exact-json.ts'
import { createNameTest } from '../../contract/protocol/sensitive-name.ts'
import { nearest } from '../../process/nearest.ts'

/** A secret of the source, or of its environment or a file of it: the written file has its name alone. */
export interface NamedSecret {
  name: string
  /** Unknown where the source has it from elsewhere. */
  value: string | undefined
  /** Where the source has it from, if not from itself. */
  from?: string
}

/** One monitor on its way. An option that is refused refuses the whole monitor: no check becomes a weaker one. */
export interface Draft {
  /** In the source. */
  path: Path
  type: string
  fields: Fields
  request: Fields
  assertions: Fields[]
  isRefused: boolean
  /** Begins the names of its secrets. */
  owner: string
  /** Definition in the source, where options depend on each other. */
  given?: Fields
  /** Of an API monitor: what is expected of its certificate. */
  certificate: Fields[]
}

/** All that one import collects. */
export interface Drafts {
  /** Of the source: paths in it are relative to this. */
  folder: string
  monitors: Draft[]
  refusals: Findings
  notes: Findings
  secrets: Map<string, NamedSecret>
}

/** Creates an empty collection for a source in the folder. */
export const createDrafts = (folder: string): Drafts => ({
  folder,
  monitors: [],
  refusals: createFindings(),
  notes: createFindings(),
  secrets: new Map(),
})

/** Adds a monitor; its type and request follow. */
export function addDraft(all: Drafts, path: Path, name: unknown): Around {
  const text = typeof name === 'string' || typeof name === 'number' ? String(name) : ''
  const draft: Draft = {
    path,
    type: '',
    fields: { name: text },
    request: {},
    assertions: [],
    isRefused: false,
    owner: text,
    certificate: [],
  }
  all.monitors.push(draft)
  return { all, draft, path }
}

/** What an option belongs to. */
export interface Around {
  all: Drafts
  draft: Draft
  /** Of the option. */
  path: Path
}

/** The same at a place below it. */
export const at = (around: Around, ...steps: Path): Around => ({
  ...around,
  path: [...around.path, ...steps],
})

/** Refuses the draft, with the reason. */
export function refuse({ all, draft, path }: Around, message: string): void {
  draft.isRefused = true
  all.refusals.push({ path, message })
}

/** Applies an option to the draft, or refuses it. */
export type Option = (value: never, around: Around) => void

/** Options by their names in the source: what becomes of each. */
export type Options = Readonly<Record<string, Option>>

/** Applies all options of a mapping. Unknown ones are refused, as nobody knows what they do. */
export function applyOptions(options: Options, given: unknown, around: Around): void {
  if (!isFields(given)) return refuse(around, 'must be a mapping')
  for (const [key, value] of Object.entries(given)) {
    if (value === null || value === undefined) continue
    const option = Object.hasOwn(options, key) ? options[key] : unknown(key, options)
    option?.(value as never, at(around, key))
  }
}

function unknown(key: string, options: Options): Option {
  const near = nearest(key, Object.keys(options))
  return never(`unknown option${near === undefined ? '' : `; did you mean ${near}?`}`)
}

/** The option takes values of this form alone. */
export const formed =
  <T>(form: z.ZodType<T>, option: (value: T, around: Around) => void): Option =>
  (value, around) => {
    const read = form.safeParse(value)
    if (read.success) option(read.data, around)
    else refuse(around, 'does not have the form that its tool documents')
  }

/** Forms of values. */
export const TEXT = z.string()
export const TEXTS = z.array(z.string())
export const PAIRS = z.record(z.string(), z.union([z.string(), z.number(), z.boolean()]))

const isSame = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other)

/** The option may have one of the values that change nothing; any other is refused. */
export const only =
  (values: readonly unknown[], reason: string): Option =>
  (value, around) => {
    if (!values.some((one) => isSame(one, value))) refuse(around, reason)
  }

/** The option has no equivalent at all. */
export const never = (reason: string): Option => only([], reason)

/** The option does not change what is checked: it is left out, with a note unless it says nothing. */
export const leftOut =
  (reason: string): Option =>
  (value, { all, path }) => {
    const isNothing = [false, 0, '', [], {}].some((one) => isSame(one, value))
    if (!isNothing) all.notes.push({ path, message: reason })
  }

/** The option changes nothing of the check, or another option of the draft has read it. */
export const silent: Option = () => {}

/** Copies the value to a field of the request. */
export const toRequest =
  (field: string): Option =>
  (value, { draft }) => {
    draft.request[field] = value
  }

/** Options of a mapping within the source's mapping. */
export const within =
  (options: Options): Option =>
  (value, around) =>
    applyOptions(options, value, around)

/** Variable names of letters, digits and _ that say whose secret it is. */
function nameOf(owner: string, label: string): string {
  const name = slugOf(`${owner} ${label}`).replaceAll('-', '_').toUpperCase().slice(0, 100)
  return /^\d/.test(name) ? `_${name}` : name
}

/** Whether the text refers to a secret already, as those from the environment of the source do. */
const hasReference = (all: Drafts, text: string) =>
  [...text.matchAll(/\{\{(\w+)\}\}/g)].some(([, name = '']) => all.secrets.has(name))

/** Whether the text is such a reference, after a scheme or alone. */
const isReference = (all: Drafts, text: string) =>
  /^(?:(?:basic|bearer|token) +)?\{\{\w+\}\}$/i.test(text) && hasReference(all, text)

/**
 * The reference to a secret that the written file has in place of its value. A value that is partly a reference
 * becomes a secret as a whole.
 */
export function secretOf(
  { all, draft }: Pick<Around, 'all' | 'draft'>,
  label: string,
  value: string | undefined,
  file?: string,
): string {
  if (value === '' || (value !== undefined && isReference(all, value))) return value
  const isComposed = value !== undefined && hasReference(all, value)
  const from = isComposed ? 'its value is in the source, with variables to put in' : file
  const plain = nameOf(draft.owner, label)
  for (let number = 1; ; number++) {
    const name = number === 1 ? plain : `${plain}_${number}`
    const known = all.secrets.get(name)
    if (known !== undefined && (known.value !== value || known.from !== from)) continue
    all.secrets.set(name, { name, value, ...(from === undefined ? {} : { from }) })
    return `{{${name}}}`
  }
}

/** A secret that comes from a file: the agent reads it by `<NAME>_FILE`. */
export const secretFile = (around: Around, label: string, path: string) =>
  secretOf(around, label, undefined, path)

const isSensitive = createNameTest()

const headersOf = ({ draft }: Around) => (draft.request['headers'] ??= []) as unknown[]

/** Adds headers to the request; the values of sensitive ones become secrets. */
export function addHeaders(around: Around, given: Readonly<Record<string, unknown>>): void {
  const headers = headersOf(around)
  for (const [key, value] of Object.entries(given)) {
    const text = String(value)
    headers.push({ key, value: isSensitive(key) ? secretOf(around, key, text) : text })
  }
}

/** Adds `Authorization` with a token that is a reference already. */
export const addToken = (around: Around, scheme: string, token: string) =>
  headersOf(around).push({ key: 'Authorization', value: `${scheme} ${token}` })

/** Sets a field of TLS. */
export const toTls = (field: string, convert: (text: string, all: Drafts) => string): Option =>
  formed(TEXT, (value, { all, draft: { request } }) => {
    request['tls'] = { ...(request['tls'] as object), [field]: convert(value, all) }
  })

/** Sets a file of TLS; its path is made absolute. */
export const toTlsFile = (field: string) =>
  toTls(field, (path, { folder }) => resolve(folder, path))

/** User and password of an address, wherever it stands. */
const CREDENTIALS = /(?<=:\/\/)[^/?#\s"]+(?=@)/g
/** Parameters of an address or a form, wherever it stands. */
const PARAMETER = /(^|[?&#\s"])([^?&#=\s"]+)=([^&#\s"]*)/g
/** A text of JSON; where it is the key of another text, both. */
const JSON_TEXT = /("([^"\\]*(?:\\.[^"\\]*)*)")(?:(\s*:\s*")([^"\\]*(?:\\.[^"\\]*)*)")?/g

/**
 * An address or a body without the secrets in it: credentials, sensitive parameters, sensitive fields of JSON. Each is
 * cut out as it is written, encoded or not. Refuses the draft where a secret is left then.
 */
export function withoutSecrets(around: Around, label: string, text: string): string {
  const hide = (value: string) => secretOf(around, label, value)
  const fields =
    jsonOf(text) === undefined
      ? text
      : text.replaceAll(JSON_TEXT, (all: string, key: string, name: string, colon, value) =>
          value !== undefined && isSensitive(name) ? `${key}${colon}${hide(value)}"` : all,
        )
  const cut = fields
    .replaceAll(CREDENTIALS, (one) => {
      const user = one.slice(0, one.indexOf(':') + 1)
      return user === one ? `${hide(one.slice(0, -1))}:` : user + hide(one.slice(user.length))
    })
    .replaceAll(PARAMETER, (all, before: string, name: string, value: string) =>
      isSensitive(name) ? `${before}${name}=${hide(value)}` : all,
    )
  if (hasSecrets(around.all, cut)) {
    refuse(around, 'contains a secret that cannot be replaced; percent-encode it, or remove it')
  }
  return cut
}

/** Whether the text has secrets other than references. */
function hasSecrets(all: Drafts, text: string): boolean {
  const json = jsonOf(text)
  const query = /^[a-z][\w+.-]*:\/\/[^?#]*\??([^#]*)/i.exec(text)?.[1] ?? text
  const parameters = json === undefined ? [...new URLSearchParams(query)] : []
  const pairs = parameters
    .filter(([key]) => isSensitive(key))
    .map(([key, value]) => ({ key, value }))
  return definitionSecrets({ text, json, pairs }, isSensitive).some(
    (one) => !isReference(all, decoded(one)),
  )
}
