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
  /** Type and definition in the source, where options depend on each other. */
  kind?: string
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
export function addDraft(all: Drafts, path: Path, name: unknown): Draft {
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
  return draft
}

/** Refuses the draft, or what never becomes one. */
export function refuse(all: Drafts, draft: Draft | undefined, path: Path, message: string): void {
  if (draft !== undefined) draft.isRefused = true
  all.refusals.push({ path, message })
}

/** What an option belongs to. */
export interface Around {
  all: Drafts
  draft: Draft
  /** Of the option. */
  path: Path
}

/** Applies an option to the draft; a text is the reason why that cannot be done. */
export type Option = (value: never, around: Around) => string | undefined

/** Options by their names in the source: what becomes of each. */
export type Options = Readonly<Record<string, Option>>

/** Applies all options of a mapping. Unknown ones are refused, as nobody knows what they do. */
export function applyOptions(options: Options, given: unknown, around: Around): void {
  const { all, draft, path } = around
  if (!isFields(given)) return refuse(all, draft, path, 'must be a mapping')
  for (const [key, value] of Object.entries(given)) {
    if (value === null || value === undefined) continue
    const place = [...path, key]
    const option = Object.hasOwn(options, key) ? options[key] : undefined
    const near = nearest(key, Object.keys(options))
    const reason =
      option === undefined
        ? `unknown option${near === undefined ? '' : `; did you mean ${near}?`}`
        : option(value as never, { all, draft, path: place })
    if (reason !== undefined) refuse(all, draft, place, reason)
  }
}

/** The option takes values of this form alone. */
export const formed =
  <T>(form: z.ZodType<T>, option: (value: T, around: Around) => string | undefined): Option =>
  (value, around) => {
    const read = form.safeParse(value)
    return read.success
      ? option(read.data, around)
      : 'does not have the form that its tool documents'
  }

/** Forms of values. */
export const TEXT = z.string()
export const TEXTS = z.array(z.string())
export const PAIRS = z.record(z.string(), z.union([z.string(), z.number(), z.boolean()]))

const isSame = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other)

/** The option may have one of the values that change nothing; any other is refused. */
export const only =
  (values: readonly unknown[], reason: string): Option =>
  (value) =>
    values.some((one) => isSame(one, value)) ? undefined : reason

/** The option has no equivalent at all. */
export const never = (reason: string): Option => only([], reason)

/** The option does not change what is checked: it is left out, with a note unless it says nothing. */
export const leftOut =
  (reason: string): Option =>
  (value, { all, path }) => {
    const isNothing = [false, 0, '', [], {}].some((one) => isSame(one, value))
    if (!isNothing) all.notes.push({ path, message: reason })
    return undefined
  }

/** The option changes nothing of the check, or another option of the draft has read it. */
export const silent: Option = () => undefined

/** Copies the value to a field of the request. */
export const toRequest =
  (field: string): Option =>
  (value, { draft }) => {
    draft.request[field] = value
    return undefined
  }

/** Options of a mapping within the source's mapping. */
export const within =
  (options: Options): Option =>
  (value, around) => {
    applyOptions(options, value, around)
    return undefined
  }

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

/** Headers or parameters; the values of sensitive ones become secrets. */
function pairsOf(around: Around, given: Readonly<Record<string, unknown>>) {
  return Object.entries(given).map(([key, value]) => {
    const text = String(value)
    return { key, value: isSensitive(key) ? secretOf(around, key, text) : text }
  })
}

/** Adds headers to the request. */
export function addHeaders(around: Around, given: Readonly<Record<string, unknown>>): void {
  const headers = (around.draft.request['headers'] ?? []) as unknown[]
  around.draft.request['headers'] = [...headers, ...pairsOf(around, given)]
}

/** Adds `Authorization` with a token that is a reference already. */
export function addToken(around: Around, scheme: string, token: string): void {
  const headers = (around.draft.request['headers'] ?? []) as unknown[]
  around.draft.request['headers'] = [
    ...headers,
    { key: 'Authorization', value: `${scheme} ${token}` },
  ]
}

/** Sets a file of TLS; its path is made absolute. */
export const toTlsFile = (field: string): Option =>
  formed(TEXT, (value, { all, draft }) => {
    draft.request['tls'] = {
      ...(draft.request['tls'] as object),
      [field]: resolve(all.folder, value),
    }
    return undefined
  })

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
      const at = one.indexOf(':') + 1
      return at === one.length
        ? `${hide(one.slice(0, -1))}:`
        : one.slice(0, at) + hide(one.slice(at))
    })
    .replaceAll(PARAMETER, (all, before: string, name: string, value: string) =>
      isSensitive(name) ? `${before}${name}=${hide(value)}` : all,
    )
  if (hasSecrets(around.all, cut)) {
    const message = 'contains a secret that cannot be replaced; percent-encode it, or remove it'
    refuse(around.all, around.draft, around.path, message)
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
