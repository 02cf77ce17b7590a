// The documents that describe the public API: the present one, made from the operations, and the old one,
// which is kept as it was.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { OpenAPIHono } from '@hono/zod-openapi'
import type { Context } from 'hono'
import { HEADER_COMPONENTS } from '../operation-document.ts'
import { docsPage, DOCS_POLICY } from './docs.ts'

const TAGS = [
  { name: 'Checks', description: 'Monitors of every type' },
  { name: 'Check Groups', description: 'Groups of checks, whose members inherit their settings' },
  { name: 'Private Locations', description: 'Locations of agents, and their keys' },
  { name: 'Environment Variables', description: 'Variables of all checks' },
  { name: 'Code Bundles', description: 'Projects of check suites' },
  { name: 'Apply', description: 'Whole files of checks, all or nothing' },
  { name: 'Alert Channels', description: 'Where alerts and notices are sent' },
  { name: 'Alert Settings', description: 'When failing checks become alerts' },
  {
    name: 'Alert Notifications',
    description: 'Notifications that were sent, and whether they arrived',
  },
  { name: 'Status Page Incidents', description: 'Incidents with their services and updates' },
  { name: 'Status Page Services', description: 'Services that incidents affect' },
  {
    name: 'Status Pages',
    description: 'Definitions of status pages; this version serves no page and sends no e-mail',
  },
  { name: 'Accounts', description: 'The account and the user of a key' },
  { name: 'Check Results', description: 'Results of the slots of a monitor' },
  { name: 'Check Runs', description: 'Runs on demand' },
  { name: 'Heartbeats', description: 'Events of jobs that ping the platform' },
  { name: 'Artifacts', description: 'Files of results' },
  { name: 'Check Status', description: 'Present state of monitors' },
  { name: 'Analytics', description: 'Availability and response times over spans of time' },
  { name: 'Accounting', description: 'Whether every slot has its row' },
  { name: 'Runtimes', description: 'Packages that scripts can import' },
  { name: 'Platform', description: 'The platform itself' },
]

interface Text {
  body: string
  /** Compressed when it is first asked for. */
  packed?: Promise<Uint8Array<ArrayBuffer>>
  etag: string
}

function textOf(body: string): Text {
  return { body, etag: `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"` }
}

/** The text of the document of all operations that are mounted in `app`. */
function documentText(
  app: OpenAPIHono,
  parts: typeof PUBLIC_DOCUMENT | typeof AGENT_DOCUMENT,
  publicUrl: string,
): string {
  const { info, tags, key, headers } = parts
  for (const [name, header] of headers) {
    app.openAPIRegistry.registerComponent('headers', name, header)
  }
  app.openAPIRegistry.registerComponent('securitySchemes', 'bearer', {
    type: 'http',
    scheme: 'bearer',
    description: key,
  })
  return JSON.stringify(
    app.getOpenAPI31Document({
      openapi: '3.1.0',
      info: { ...info, license: { name: 'MIT', url: 'https://spdx.org/licenses/MIT.html' } },
      servers: [{ url: publicUrl }],
      security: [{ bearer: [] }],
      tags,
    }),
  )
}

const PUBLIC_DOCUMENT = {
  info: {
    title: 'Vedette Public API v1',
    version: 'v1',
    description:
      'Manage monitors, the private locations where they run, their results and alerts, and status pages with their incidents. Every error has the body {statusCode, error, message}; with 401 and 429 also `attributes`. ' +
      'A rate limit holds for one key, over all its connections and all platform processes. Windows are fixed: one of N seconds begins at each whole multiple of N since the Unix epoch, by the database’s clock. Exactly the limit is granted in a window, also to requests that come at once. Around the end of a window, up to twice the limit may pass in a short time.',
  },
  tags: TAGS,
  key: 'An API key. Its account goes into the header X-Service-Account.',
  headers: HEADER_COMPONENTS,
}

const AGENT_DOCUMENT = {
  info: {
    title: 'Vedette Agent API v1',
    version: 'v1',
    description:
      'How agents talk to their platform; all calls are the agent’s. Instants are milliseconds since the Unix epoch on the platform’s clock. Every error has the body {statusCode, error, message}; with 401 and 429 also `attributes`.',
  },
  tags: [{ name: 'Agents', description: 'Calls of agents: monitors, results and files' }],
  key: 'A key of a private location, `pl_…`.',
  headers: [],
}

/** Serves /agent/v1/openapi.json. To be called when all calls of agents are mounted. */
export function serveAgentDocument(app: OpenAPIHono, publicUrl = '/'): void {
  const text = textOf(documentText(app, AGENT_DOCUMENT, publicUrl))
  app.get('/agent/v1/openapi.json', (c) => send(c, text, JSON_HEADERS))
}

const JSON_HEADERS = { 'Content-Type': 'application/json; charset=utf-8' }

/** Serves /openapi.json, /swagger.json and /docs. To be called when all operations are mounted. */
export function serveDocuments(app: OpenAPIHono, publicUrl = '/'): void {
  const current = textOf(documentText(app, PUBLIC_DOCUMENT, publicUrl))
  const legacy = textOf(readFileSync(new URL('./swagger.json', import.meta.url), 'utf8'))
  const page = textOf(docsPage(current.body))
  app.get('/openapi.json', (c) => send(c, current, JSON_HEADERS))
  app.get('/swagger.json', (c) =>
    send(c, legacy, {
      ...JSON_HEADERS,
      // RFC 9745: a date, as the platform has had the other document from its first day.
      Deprecation: '@1767225600',
      Link: '</openapi.json>; rel="successor-version"; type="application/json"',
    }),
  )
  app.get('/', (c) => c.redirect('/docs'))
  app.get('/docs', (c) =>
    send(c, page, {
      'Content-Type': 'text/html; charset=utf-8',
      'Content-Security-Policy': DOCS_POLICY,
      'X-Content-Type-Options': 'nosniff',
    }),
  )
}

const pack = promisify(gzip)

async function send(c: Context, text: Text, headers: Record<string, string>): Promise<Response> {
  // Asked for again after an hour; unchanged it costs no body.
  const cacheHeaders = {
    ...headers,
    ETag: text.etag,
    'Cache-Control': 'public, max-age=3600',
    Vary: 'Accept-Encoding',
  }
  const asked = c.req.header('if-none-match') ?? ''
  const isKnown = asked.split(',').some((tag) => tag.trim().replace(/^W\//, '') === text.etag)
  if (isKnown) return c.body(null, 304, cacheHeaders)
  if (!/\bgzip\b(?!\s*;\s*q=0(?:\.0*)?(?:,|$))/.test(c.req.header('accept-encoding') ?? ''))
    return c.body(text.body, 200, cacheHeaders)
  text.packed ??= pack(text.body).then((bytes) => new Uint8Array(bytes))
  return c.body(await text.packed, 200, { ...cacheHeaders, 'Content-Encoding': 'gzip' })
}
