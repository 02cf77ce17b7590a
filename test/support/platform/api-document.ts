// Checks answers against the OpenAPI document: an undocumented status, a body that does not match or has an extra
// field, or a missing header is a failure.
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'

interface Answer {
  description: string
  headers?: Record<string, unknown>
  content?: Record<string, { schema: object }>
}

interface Parameter {
  in: string
  name: string
  schema: { type?: string; pattern?: string }
}

interface Operation {
  operationId: string
  parameters?: Parameter[]
  responses: Record<string, Answer>
}

/** The part of an OpenAPI document that tests read. */
export interface ApiDocument {
  openapi: string
  info: { title: string; version: string }
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, object> }
}

/** Throws when an answer differs from the document. */
export type CheckAnswer = (
  method: string,
  path: string,
  answer: { status: number; headers: Headers; text: string },
) => void

/** Makes the check for `document`. */
export function checkAgainst(document: ApiDocument): CheckAnswer {
  const strict = structuredClone(document)
  close(strict)
  const ajv = new Ajv2020({ strict: false, allErrors: true })
  ;(formats as unknown as (to: Ajv2020) => void)(ajv)
  ajv.addSchema(strict, 'document')
  const validators = new Map<string, ValidateFunction>()
  const validatorOf = (pointer: string): ValidateFunction => {
    const known = validators.get(pointer) ?? ajv.compile({ $ref: `document#${pointer}` })
    validators.set(pointer, known)
    return known
  }
  return (method, path, { status, headers, text }) => {
    const where = `${method} ${path} → ${status}`
    const template = templateOf(document, path)
    const operation = document.paths[template]?.[method.toLowerCase()]
    if (operation === undefined) {
      if (status >= 500 || status < 400) throw new Error(`${where}: an unknown route`)
      return
    }
    const documented = operation.responses[String(status)]
    if (documented === undefined) throw new Error(`${where}: not documented: ${text}`)
    for (const name of Object.keys(documented.headers ?? {})) {
      if (!headers.has(name)) throw new Error(`${where}: header ${name} is missing`)
    }
    if (documented.content === undefined) {
      if (text !== '') throw new Error(`${where}: has a body`)
      return
    }
    const part = (name: string) => name.replaceAll('~', '~0').replaceAll('/', '~1')
    const pointer = `/paths/${part(template)}/${method.toLowerCase()}/responses/${status}/content/application~1json/schema`
    const validate = validatorOf(encodeURI(pointer))
    if (!validate(JSON.parse(text))) {
      throw new Error(`${where}: ${ajv.errorsText(validate.errors)} in ${text.slice(0, 500)}`)
    }
  }
}

function templateOf(document: ApiDocument, path: string): string {
  const plain = path.split('?')[0] ?? ''
  const templates = Object.keys(document.paths)
  const found = templates.find((template) => {
    const [operation] = Object.values(document.paths[template] ?? {})
    const expression = template.replaceAll(/\{(\w+)\}/g, (_all, name: string) =>
      looksOf(operation?.parameters?.find((one) => one.in === 'path' && one.name === name)),
    )
    return new RegExp(`^${expression}$`).test(plain)
  })
  return found ?? ''
}

/** The router's pattern for a parameter, by its schema. */
function looksOf(parameter: Parameter | undefined): string {
  const { type, pattern } = parameter?.schema ?? {}
  if (type === 'integer') return '\\d{1,15}'
  return pattern?.replace(/^\^(.*)\$$/, '$1') ?? '[0-9A-Fa-f-]{36}'
}

/** Makes every object with named properties reject others. */
function close(node: unknown): void {
  if (typeof node !== 'object' || node === null) return
  const schema = node as Record<string, unknown>
  const isObject = schema['type'] === 'object' && typeof schema['properties'] === 'object'
  if (isObject) schema['additionalProperties'] ??= false
  for (const child of Object.values(schema)) close(child)
}

/** A body whose shape the test knows. */
// oxlint-disable-next-line typescript/no-explicit-any -- bodies of many shapes are only looked into
export type Loose = any

/** An answer whose body has been read. */
export interface ApiAnswer<Body = unknown> {
  status: number
  headers: Headers
  text: string
  body: Body
}

/** Options of a request. */
export interface ApiRequest {
  body?: unknown
  /** Sent as it is, instead of `body`. */
  raw?: string | Uint8Array<ArrayBuffer>
  /** Added to those of the client; null removes one. */
  headers?: Record<string, string | null>
  signal?: AbortSignal
}

/** Sends a request with the headers of a client, and checks the answer against the document. */
export async function callApi(
  { url, check }: { url: string; check: CheckAnswer },
  own: Record<string, string>,
  method: string,
  path: string,
  { body, raw, headers = {}, signal }: ApiRequest,
): Promise<ApiAnswer<Loose>> {
  const sent = new Headers(own)
  const payload = raw ?? (body === undefined ? undefined : JSON.stringify(body))
  if (payload !== undefined) sent.set('content-type', 'application/json')
  for (const [name, value] of Object.entries(headers)) {
    if (value === null) sent.delete(name)
    else sent.set(name, value)
  }
  const response = await fetch(`${url}${path}`, {
    method,
    headers: sent,
    ...(payload !== undefined && { body: payload }),
    ...(signal !== undefined && { signal }),
  })
  const text = await response.text()
  const answer = { status: response.status, headers: response.headers, text }
  check(method, path, answer)
  return { ...answer, body: text === '' ? undefined : JSON.parse(text) }
}
