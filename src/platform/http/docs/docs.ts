// A page that reads well without the internet and without a script: the document, written out as HTML.

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
  requestBody?: { content: { 'application/json': { schema: Schema } } }
  responses: Record<string, { description: string; content?: Record<string, { schema: Schema }> }>
}

interface ApiDocument {
  info: { title: string; description: string }
  tags: { name: string; description: string }[]
  paths: Record<string, Record<string, DocumentOperation>>
  components: { schemas: Record<string, Schema> }
}

/** What the page may load: its own style and nothing else. */
export const DOCS_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"

const STYLE = `:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;
margin:2rem auto;padding:0 1rem}code{font:.9em ui-monospace,monospace}h3 code{font-size:1em}
details{margin:.5rem 0}summary{cursor:pointer}table{border-collapse:collapse;width:100%}
td,th{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;border-bottom:1px solid #8884}
.method{text-transform:uppercase;font-weight:700;margin-right:.5rem}nav li{list-style:none}
nav ul{padding:0}`

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
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  )
  const sections = document.tags.map(({ name, description }) => {
    const own = operations.filter(({ operation }) => operation.tags.includes(name))
    if (own.length === 0) return ''
    const parts = own.map(({ path, method, operation }) => operationHtml(path, method, operation))
    return `<h2>${escape(name)}</h2><p>${prose(description)}</p>${parts.join('')}`
  })
  const schemas = Object.entries(document.components.schemas).map(
    ([name, schema]) =>
      `<details id="schema-${escape(name)}"><summary><code>${escape(name)}</code></summary>${schemaHtml(schema)}</details>`,
  )
  const title = escape(document.info.title)
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${title}</title>
<meta name="viewport" content="width=device-width"><style>${STYLE}</style></head><body>
<h1>${title}</h1><p>${prose(document.info.description)}</p>
<p>Machine-readable: <a href="/openapi.json">/openapi.json</a>. Every request carries
<code>Authorization: Bearer …</code> and <code>X-Service-Account: …</code>.</p>
${sections.join('')}<h2>Schemas</h2>${schemas.join('')}</body></html>`
}

function operationHtml(path: string, method: string, operation: DocumentOperation): string {
  const { operationId, summary, description, parameters = [], requestBody, responses } = operation
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
${body === undefined ? '' : `<p>Body: ${isJson ? '' : `<code>${escape(contentType)}</code>, `}${typeHtml(body.schema)}</p>`}
<details><summary>Answers</summary><table>${answers.join('')}</table></details></section>`
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
  if (schema.items !== undefined) return `list of ${typeHtml(schema.items)}`
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
