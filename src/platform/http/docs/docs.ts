// A page that reads well without the internet and without a script: the document, written out as HTML, with a table of
// contents by tag and a call with curl for each operation.

interface Schema {
  $ref?: string
  type?: string | string[]
  format?: string
  enum?: unknown[]
  description?: string
  default?: unknown
  minimum?: number
  maximum?: number
  maxLength?: number
  example?: unknown
  anyOf?: Schema[]
  items?: Schema
  properties?: Record<string, Schema>
  required?: string[]
}

interface DocumentOperation {
  operationId: string
  summary: string
  description?: string
  tags: string[]
  parameters?: {
    name: string
    in: string
    required?: boolean
    description?: string
    schema: Schema
  }[]
  requestBody?: { content: Record<string, { schema: Schema }> }
  responses: Record<string, { description: string; content?: Record<string, { schema: Schema }> }>
}

/** An operation with its place. */
interface PlacedOperation extends DocumentOperation {
  path: string
  method: string
}

interface ApiDocument {
  info: { title: string; description: string }
  tags: { name: string; description: string }[]
  paths: Record<string, Record<string, DocumentOperation>>
  components: { schemas: Record<string, Schema> }
}

/** What the page may load: its own style and nothing else. */
export const DOCS_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"

// On wide screens the contents stand beside the text, on narrow ones above it, where cells stand below one another. So do the
// cells of the innermost tables, which would be wider than any screen.
const STYLE = `:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:84rem;margin:0 auto;padding:1rem;overflow-wrap:anywhere}
code,pre{font:.9em ui-monospace,monospace}h3 code{font-size:1em}pre{overflow-x:auto;padding:.75rem;background:#8882}
details{margin:.25rem 0}summary{cursor:pointer}table{border-collapse:collapse;width:100%}
tr{border-bottom:1px solid #8884}td{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;overflow-wrap:break-word}
td td td{display:block}details>div{scroll-margin-top:2.5rem}.method{text-transform:uppercase;font-weight:700;margin-right:.5rem}
nav{font-size:.9rem}nav ul{list-style:none;margin:0;padding-left:1.1rem}nav a{text-decoration:none}
@media(min-width:60rem){body{display:grid;grid-template:auto 1fr/18rem minmax(0,1fr);column-gap:2rem}
nav{grid-area:1/1/span 2/2;position:sticky;top:0;align-self:start;max-height:100vh;overflow-y:auto}
header{grid-area:1/2}main{grid-area:2/2}td:first-child,section>table td:nth-child(2){white-space:nowrap}}
@media(max-width:60rem){td{display:block}td+td{padding-left:.75rem}td:not(:last-child){padding-bottom:0}}`

function escape(text: unknown): string {
  return String(text)
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}

/** A text of the document; backticks mark code. */
function prose(text: string): string {
  return escape(text).replaceAll(/`([^`]+)`/g, '<code>$1</code>')
}

/** The page for the JSON text of an OpenAPI document. */
export function docsPage(documentText: string): string {
  const document = JSON.parse(documentText) as ApiDocument
  const { schemas } = document.components
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ ...operation, path, method })),
  )
  const tags = document.tags
    .map((tag) => ({ ...tag, own: operations.filter(({ tags: of }) => of.includes(tag.name)) }))
    .filter(({ own }) => own.length > 0)
  const sections = tags.map(
    ({ name, description, own }) =>
      `<h2 id="${tagId(name)}">${escape(name)}</h2><p>${prose(description)}</p>${own.map((one) => operationHtml(one, schemas)).join('')}`,
  )
  const schemaParts = Object.entries(schemas).map(
    ([name, schema]) =>
      `<details><summary><code>${escape(name)}</code></summary><div id="schema-${escape(name)}">${schemaHtml(schema)}</div></details>`,
  )
  const title = escape(document.info.title)
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>${STYLE}</style></head><body>
<header><h1>${title}</h1><p>${prose(document.info.description)}</p>
<p>Machine-readable: <a href="/openapi.json">/openapi.json</a>. Every request has the headers
<code>Authorization: Bearer …</code> and <code>X-Service-Account: …</code>. The examples take them from
<code>API_KEY</code> and <code>ACCOUNT_ID</code>, and the address from <code>PLATFORM_URL</code>.</p></header>
<nav aria-label="Contents">${tags.map(contentsHtml).join('')}<a href="#schemas">Schemas</a></nav>
<main>${sections.join('')}<h2 id="schemas">Schemas</h2>${schemaParts.join('')}</main></body></html>`
}

function tagId(name: string): string {
  return `tag-${name.toLowerCase().replaceAll(' ', '-')}`
}

function contentsHtml({ name, own }: { name: string; own: readonly PlacedOperation[] }): string {
  const entries = own.map(
    ({ operationId, method, summary }) =>
      `<li><a href="#${escape(operationId)}"><span class="method">${escape(method)}</span>${escape(summary)}</a></li>`,
  )
  return `<details><summary><a href="#${tagId(name)}">${escape(name)}</a></summary><ul>${entries.join('')}</ul></details>`
}

function operationHtml(operation: PlacedOperation, schemas: Record<string, Schema>): string {
  const { operationId, path, method, summary, description } = operation
  const { parameters = [], requestBody, responses } = operation
  const rows = parameters.map(
    (one) =>
      `<tr><td><code>${escape(one.name)}</code></td><td>${escape(one.in)}${one.required === true ? ', required' : ''}</td><td>${typeHtml(one.schema)}${one.description === undefined ? '' : `. ${prose(one.description)}`}</td></tr>`,
  )
  const [contentType = '', body] = Object.entries(requestBody?.content ?? {})[0] ?? []
  const isJson = contentType === 'application/json'
  const answers = Object.entries(responses).map(([status, { description: meaning, content }]) => {
    const schema = content?.['application/json']?.schema
    return `<tr><td>${escape(status)}</td><td>${prose(meaning)}</td><td>${schema === undefined ? '' : typeHtml(schema)}</td></tr>`
  })
  return `<section id="${escape(operationId)}"><h3><span class="method">${escape(method)}</span><code>${escape(path)}</code></h3>
<p>${prose(`${summary}. ${description ?? ''}`)}</p><table>${rows.join('')}</table>
${body === undefined ? '' : `<div>Body: ${isJson ? '' : `<code>${escape(contentType)}</code>, `}${typeHtml(body.schema)}</div>`}
<details><summary>Example</summary><pre>${escape(curlOf(operation, schemas))}</pre></details>
<details><summary>Answers</summary><table>${answers.join('')}</table></details></section>`
}

/** A call of the operation; the shell's variables stand for parameters of the path and for required ones of the query. */
function curlOf(
  { path, method, parameters = [], requestBody }: PlacedOperation,
  schemas: Record<string, Schema>,
): string {
  const required = parameters.filter((one) => one.in === 'query' && one.required === true)
  const query = required.map(({ name }) => `${name}=$${name}`).join('&')
  const target = path.replaceAll(/\{(\w+)\}/g, '$$$1') + (query && `?${query}`)
  const [contentType, body] = Object.entries(requestBody?.content ?? {})[0] ?? []
  const isJson = contentType === 'application/json'
  const example = body && JSON.stringify(exampleOf(body.schema, schemas))
  const data = isJson ? `-d '${example?.replaceAll("'", String.raw`'\''`)}'` : '--data-binary @file'
  return [
    `curl -sS ${method === 'get' ? '' : `-X ${method.toUpperCase()} `}"$PLATFORM_URL${target}"`,
    `-H "Authorization: Bearer $API_KEY" -H "X-Service-Account: $ACCOUNT_ID"`,
    ...(contentType === undefined ? [] : [`-H 'Content-Type: ${contentType}' ${data}`]),
  ].join(' \\\n  ')
}

/** The example of a schema, or of the first of its alternatives. */
function exampleOf(schema: Schema, schemas: Record<string, Schema>): unknown {
  const named = schema.$ref === undefined ? schema : schemas[schema.$ref.split('/').at(-1) ?? '']
  const [first] = named?.anyOf ?? []
  return named?.example ?? (first && exampleOf(first, schemas))
}

function schemaHtml(schema: Schema): string {
  const rows = Object.entries(schema.properties ?? {}).map(
    ([name, one]) =>
      `<tr><td><code>${escape(name)}</code>${schema.required?.includes(name) === true ? ' *' : ''}</td><td>${typeHtml(one)}</td><td>${prose(one.description ?? '')}</td></tr>`,
  )
  return rows.length === 0 ? `<p>${typeHtml(schema)}</p>` : `<table>${rows.join('')}</table>`
}

function typeHtml(schema: Schema): string {
  if (schema.$ref !== undefined) {
    const name = escape(schema.$ref.split('/').at(-1))
    return `<a href="#schema-${name}">${name}</a>`
  }
  if (schema.anyOf !== undefined) return schema.anyOf.map(typeHtml).join(' or ')
  if (schema.items !== undefined) return `list of ${typeHtml(schema.items)}`
  if (schema.properties !== undefined)
    return `<details><summary>object</summary>${schemaHtml(schema)}</details>`
  if (schema.enum !== undefined)
    return schema.enum.map((one) => `<code>${escape(one)}</code>`).join(', ')
  const bounds = [
    schema.format,
    schema.minimum === undefined ? undefined : `from ${schema.minimum}`,
    schema.maximum === undefined ? undefined : `to ${schema.maximum}`,
    schema.maxLength === undefined ? undefined : `at most ${schema.maxLength} characters`,
    schema.default === undefined ? undefined : `default ${JSON.stringify(schema.default)}`,
  ].filter((bound) => bound !== undefined)
  const type = [schema.type ?? 'any'].flat().join(' or ')
  return escape([type, ...bounds].join(', '))
}
