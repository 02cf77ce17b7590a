// Aim: what the manual pages say about the platform holds: their `curl` lines are run on a real one, their operations
// are in its documents, and the result of a heartbeat is of the form that its page shows.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { parse } from 'yaml'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { DATABASE_SERVERS, useDatabase } from './support/database/database.ts'
import { missing } from './support/needs.ts'
import { blocksOf, chapter, hasForm, page, pages } from './support/pages.ts'
import type { ApiDocument } from './support/platform/api-document.ts'
import { startPlatform, type StartedPlatform } from './support/platform/platform-process.ts'
import { addClient, type PublicApi } from './support/platform/public-api.ts'
import { temporaryFolder } from './support/temporary-folder.ts'

const database = useDatabase(DATABASE_SERVERS[0])
let platform: StartedPlatform
beforeAll(async () => {
  platform = await startPlatform({ DATABASE_URL: database().url, DATA_DIR: temporaryFolder() })
})
afterAll(async () => {
  platform.kill('SIGTERM')
  await platform.ended
})

/** An account of its own, so that names of one page are free on the next. */
const newClient = () =>
  addClient(
    { url: platform.url, check: () => undefined } as unknown as PublicApi,
    database().database,
  )
const documentAt = async (path: string) =>
  (await (await fetch(`${platform.url}${path}`)).json()) as ApiDocument

/** Path → the lines of a page that call `api`, a function of curl that the page defines. */
const calls = [...pages].flatMap(([path, text]) => {
  const lines = blocksOf('sh', text)
    .filter((block) => !block.includes('kubectl'))
    .flatMap((block) => block.match(/^api (?:[^\n]*\n)(?:[ ][^\n]*\n)*/gm) ?? [])
  return lines.length === 0 ? [] : [{ path, lines }]
})

const API = `api() { curl -sS --fail-with-body -H "Authorization: Bearer $ADMIN_KEY" \\
  -H "X-Service-Account: $ACCOUNT_ID" -H 'Content-Type: application/json' "$@"; }`

const why = missing('curl')

test.each(calls)('the calls on $path are answered', async ({ lines }) => {
  expect(why).toBeUndefined()
  const { accountId, secret } = await newClient()
  const env = { ...process.env, ACCOUNT_ID: accountId, ADMIN_KEY: secret }
  const ids: Record<string, string> = {}
  for (const line of lines) {
    const command = Object.entries(ids).reduce(
      (text, [name, id]) => text.replaceAll(name, id),
      line.replaceAll('localhost:3000', new URL(platform.url).host),
    )
    const ran = promisify(execFile)('bash', ['-c', `${API}\n${command}`], { env })
    const { stdout } = await ran.catch((error: Error & { stdout: string }) => {
      throw new Error(`${line}${error.stdout}`)
    })
    const { id } = JSON.parse(stdout) as { id?: string }
    // The placeholder of the next line, like INCIDENT_ID, is the id of what was created.
    const [, check, other] = /\/v1\/(check)s\/|\/v1\/(?:[\w-]+\/)*([\w-]+?)s? -d /.exec(line) ?? []
    const created = check ?? other?.replace(/^(private|check)-/, '')
    if (id !== undefined && created !== undefined) ids[`${created.toUpperCase()}_ID`] = id
  }
})

test('each operation that a page names is in the document of the API or of agents', async () => {
  const documents = await Promise.all(['/openapi.json', '/agent/v1/openapi.json'].map(documentAt))
  const known = new Set(
    documents.flatMap(({ paths }) =>
      Object.entries(paths).flatMap(([path, methods]) =>
        Object.keys(methods).map((method) => `${method.toUpperCase()} ${template(path)}`),
      ),
    ),
  )
  const named = [...pages].flatMap(([path, text]) =>
    [...text.matchAll(/`((?:GET|POST|PUT|PATCH|DELETE|HEAD) \/(?:v\d|agent)[^`?\s]*)/g)].map(
      ([, operation = '']) => ({ path, operation }),
    ),
  )
  expect(named.length).toBeGreaterThan(15)
  expect(named.filter(({ operation }) => !known.has(template(operation)))).toEqual([])
})

/** A path with all parameters alike. */
const template = (path: string) => path.replaceAll(/\{[^}]*\}/g, '{}').replace(/\/$/, '')

test('the page of heartbeats shows the result of a ping', async () => {
  const text = page('src/monitors/heartbeat/README.md')
  const [yaml = ''] = blocksOf('yaml', chapter(text, 'Minimal example') ?? '')
  const { monitors } = parse(yaml) as { monitors: { name: string; heartbeat: object }[] }
  const { name, heartbeat } = monitors[0] ?? {}
  const client = await newClient()
  const created = await client.call('POST', '/v1/checks/heartbeat', { body: { name, heartbeat } })
  const { id, heartbeat: made } = created.body as { id: string; heartbeat: { pingToken: string } }
  const pinged = await fetch(`${platform.url}/ping/${made.pingToken}`)
  expect(pinged.status).toBe(200)
  const listed = await client.call('GET', `/v1/check-results/${id}`)
  const [newest] = listed.body as { id: string }[]
  const result = await client.call('GET', `/v1/check-results/${id}/${newest?.id}`)
  const [shown = ''] = blocksOf('json', chapter(text, 'Result') ?? '')
  expect(hasForm(JSON.parse(shown), result.body) || result.body).toBe(true)
})
