// Aim: the API's documents are valid, say what the API does, and need no internet.
import { execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { describe, expect, test } from 'vitest'
import type { Database } from '../../../../src/database/database.ts'
import { DEFINED_TYPES } from '../../../../src/monitors/definitions.ts'
import { createRuns } from '../../../../src/platform/runs/routes.ts'
import { startAgentsApi } from '../../../support/platform/agents-api.ts'
import { missing } from '../../../support/needs.ts'
import { makeLocation } from '../../../support/platform/named-locations.ts'
import { type Loose, usePublicApi } from '../../../support/platform/public-api.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

// Documents ask no database.
const runs = createRuns({} as Database)
const { database, api, client } = usePublicApi({ operations: runs.operations })

const problems = async (document: object) => {
  const { valid, errors } = await new Validator().validate({ ...structuredClone(document) })
  return valid ? [] : errors
}

/** The operations of the document. */
const operations = (): Loose[] =>
  Object.values(api.document.paths).flatMap((methods) => Object.values(methods))
const schemas = () => api.document.components.schemas as Record<string, Loose>

/** Errors of the linter with its recommended rules. */
async function lint(document: object): Promise<string[]> {
  const file = join(temporaryFolder(), 'openapi.json')
  writeFileSync(file, JSON.stringify(document))
  const linter = fileURLToPath(new URL('../../../../node_modules/.bin/redocly', import.meta.url))
  // Nothing leaves this machine: no usage figures, no check for a newer version.
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }
  const stdio: ['ignore', 'pipe', 'ignore'] = ['ignore', 'pipe', 'ignore']
  const child = spawn(linter, ['lint', '--format=json', file], { env, stdio })
  const report = JSON.parse(await text(child.stdout)) as {
    problems: { severity: string; ruleId: string }[]
  }
  return report.problems.filter((one) => one.severity === 'error').map((one) => one.ruleId)
}

test('the root leads to the pages, which are compressed for clients that accept it', async () => {
  const { status, headers } = await fetch(`${api.url}/`, { redirect: 'manual' })
  expect([status, headers.get('location')]).toEqual([302, '/docs'])
  for (const path of ['/openapi.json', '/docs']) {
    const ask = (encoding: string) =>
      fetch(`${api.url}${path}`, { headers: { 'Accept-Encoding': encoding } })
    const [plain, packed] = [await ask('gzip;q=0'), await ask('br, gzip')]
    expect(packed.headers.get('content-encoding')).toBe('gzip')
    expect(plain.headers.get('content-encoding')).toBeNull()
    expect(await packed.text()).toBe(await plain.text())
  }
})

describe('/openapi.json', () => {
  test('is valid OpenAPI 3.1, titled with v1, and passes the linter', async () => {
    expect(await problems(api.document)).toEqual([])
    expect(api.document.openapi).toBe('3.1.0')
    expect(api.document.info.title).toContain('v1')
    expect(await lint(api.document)).toEqual([])
  })

  test('names every operation once, and declares 501 where it is not supported', () => {
    const names = operations().map(({ operationId }) => operationId)
    expect(new Set(names).size).toBe(names.length)
    const refusing = operations().filter(({ responses }) => '501' in responses)
    const bulk = 'postV1StatuspagesStatuspageidSubscriptionsBulk'
    expect(refusing.map(({ operationId }) => operationId)).toEqual([bulk])
  })

  test('documents the listing as in the contract', () => {
    const listing = api.document.paths['/v1/status-pages/incidents']?.['get'] as Loose
    const limit = { type: 'integer', minimum: 1, maximum: 100, default: 20 }
    expect(listing).toMatchObject({
      operationId: 'getV1StatuspagesIncidents',
      tags: ['Status Page Incidents'],
      security: [{ bearer: [] }],
      responses: { 200: {}, 401: {}, 403: {}, 404: {}, 429: {} },
    })
    expect(listing.parameters.slice(0, 3)).toMatchObject([
      { name: 'limit', required: false, schema: limit },
      { name: 'nextId', required: false, schema: { type: 'string' } },
      { name: 'X-Service-Account', required: true },
    ])
    const { StatusPageIncident, StatusPageService, StatusPageIncidentUpdate } = schemas()
    const required = [StatusPageIncident, StatusPageService, StatusPageIncidentUpdate].map(
      (schema) => schema.required.toSorted().join(' '),
    )
    const incident = 'created_at id incidentUpdates lastUpdateStatus name services severity'
    const others = ['accountId created_at id name', 'created_at description id']
    expect(required).toEqual([incident, ...others])
    expect(StatusPageIncident.properties).toMatchObject({
      name: { maxLength: 255 },
      severity: { enum: ['CRITICAL', 'MAJOR', 'MEDIUM', 'MINOR'] },
      lastUpdateStatus: { enum: ['INVESTIGATING', 'IDENTIFIED', 'MONITORING', 'RESOLVED'] },
      duration: { type: ['integer', 'null'] },
      created_at: { format: 'date' },
    })
  })

  test('has attributes in the bodies of 401 and 429 only', () => {
    const having = Object.entries(schemas()).filter(
      ([name, schema]) => name.endsWith('Error') && schema.properties.attributes,
    )
    const names = having.map(([name]) => name).toSorted()
    expect(names).toEqual(['TooManyRequestsError', 'UnauthorizedError'])
  })

  test('has an example for every JSON body, which fits its schema', () => {
    const ajv = new Ajv2020({ strict: false })
    ;(formats as unknown as (to: Ajv2020) => void)(ajv)
    ajv.addSchema(structuredClone(api.document), 'document')
    const problemsOf = (schema: Loose): string[] => {
      const id: string | undefined = schema.$ref
      const named = id === undefined ? schema : schemas()[id.split('/').at(-1) ?? '']
      if (named.example === undefined)
        return named.anyOf?.flatMap(problemsOf) ?? [`${id} has no example`]
      const validate = ajv.compile({ $ref: `document${id}` })
      return validate(named.example) ? [] : [`${id}: ${ajv.errorsText(validate.errors)}`]
    }
    const bodies = operations().flatMap(
      ({ requestBody }) => requestBody?.content['application/json']?.schema ?? [],
    )
    expect(bodies.length).toBeGreaterThan(40)
    expect(bodies.flatMap(problemsOf)).toEqual([])
  })

  test('documents the fields of a check of any type', () => {
    const put: Loose = api.document.paths['/v1/checks/{id}']?.['put']
    const { schema } = put.requestBody.content['application/json']
    expect(schema).toEqual({ $ref: '#/components/schemas/CheckInput' })
    const types = schemas()['CheckInput'].anyOf.map((one: Loose) => one.$ref.split('/').at(-1))
    expect(types).toEqual(expect.arrayContaining(['UrlCheckInput', 'PlaywrightCheckInput']))
    expect(types).toHaveLength(DEFINED_TYPES.length)
  })

  test('describes each header once', () => {
    const answers = operations().flatMap(({ responses }) => Object.values<Loose>(responses))
    const headers = answers.flatMap((answer) => Object.entries(answer.headers ?? {}))
    expect(headers.length).toBeGreaterThan(1000)
    const { components } = api.document as Loose
    for (const [name, header] of headers) {
      expect([name, header]).toEqual([name, { $ref: `#/components/headers/${name}` }])
      expect(components.headers[name].description).toEqual(expect.any(String))
    }
  })

  test('declares a default of the public date of an update', () => {
    for (const name of ['StatusPageIncidentUpdate', 'StatusPageIncidentUpdateInput']) {
      const { format, default: declared } = schemas()[name].properties.publicIncidentUpdateDate
      expect([format, new Date(declared).toISOString()]).toEqual(['date-time', declared])
    }
  })

  test('answers 304 without a body when it is known', async () => {
    const first = await fetch(`${api.url}/openapi.json`)
    await first.text()
    const tag = first.headers.get('etag') ?? ''
    const headers = { 'if-none-match': `"x", W/${tag}` }
    const again = await fetch(`${api.url}/openapi.json`, { headers })
    expect([again.status, await again.text()]).toEqual([304, ''])
    expect(first.headers.get('cache-control')).toBe('public, max-age=3600')
  })
})

/** It is never updated: a change must be made here, too. */
const CHECKSUM = 'd63be8bc6ad9fcd96389d7cc4db32fe6d62c6f2d6134377dc020894c4e78c918'

test('/swagger.json is the file that was frozen, valid Swagger 2.0, and names its successor', async () => {
  const response = await fetch(`${api.url}/swagger.json`)
  const document = (await response.json()) as Loose
  expect([await problems(document), document.swagger]).toEqual([[], '2.0'])
  expect(response.headers.get('deprecation')).toMatch(/^@\d+$/)
  expect(response.headers.get('link')).toBe(
    '</openapi.json>; rel="successor-version"; type="application/json"',
  )
  const path = '../../../../src/platform/http/docs/swagger.json'
  const file = readFileSync(new URL(path, import.meta.url))
  expect(createHash('sha256').update(file).digest('hex')).toBe(CHECKSUM)
})

describe('/docs', () => {
  test('shows every operation and loads nothing from elsewhere', async () => {
    const response = await fetch(`${api.url}/docs`)
    const html = await response.text()
    for (const { operationId } of operations()) expect(html).toContain(`id="${operationId}"`)
    expect(html).not.toMatch(/<script|<link|<img|src=|href="(?![#/])|url\(|@import/)
    expect(response.headers.get('content-security-policy')).toContain("default-src 'none'")
    // Its table of contents leads somewhere.
    const [contents = ''] = /<nav[\s\S]*<\/nav>/.exec(html) ?? []
    const links = [...contents.matchAll(/href="#([^"]+)"/g)].map(([, id]) => id)
    const ids = new Set([...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id))
    expect(links.filter((id) => !ids.has(id))).toEqual([])
    const names = operations().map(({ operationId }) => operationId)
    expect(links).toEqual(expect.arrayContaining(names))
    // A link to a schema opens it: browsers open a part that contains the target, not one that is the target.
    expect(html).toContain('</summary><div id="schema-UrlCheckInput">')
    expect(html).not.toContain('<details id=')
    // Text in backticks is code, and bounds are separate from meanings.
    expect(html).not.toContain('`')
    expect(html).toContain('<code>locations</code> (public regions)')
    expect(html).toContain('integer, from 1, to 100, default 10. Entries in a page')
  })

  test('an example is a line of shell that creates the check', async ({ skip }) => {
    const why = missing('curl')
    skip(why !== undefined, why)
    await makeLocation(client, 'data-center')
    const html = await (await fetch(`${api.url}/docs`)).text()
    const section = html.slice(html.indexOf('id="postV1ChecksBrowser"'))
    const [, line = ''] = /<pre>([\s\S]*?)<\/pre>/.exec(section) ?? []
    const script = line.replaceAll('&quot;', '"').replaceAll('&amp;', '&')
    const account = { ACCOUNT_ID: client.accountId, API_KEY: client.secret }
    const env = { PATH: process.env['PATH'], PLATFORM_URL: api.url, ...account }
    const { stdout } = await promisify(execFile)('sh', ['-c', script], { env })
    expect(JSON.parse(stdout)).toMatchObject({ checkType: 'BROWSER', name: 'Shop' })
  })
})

test('/agent/v1/openapi.json is valid OpenAPI 3.1, passes the linter, and needs no key', async () => {
  const agents = await startAgentsApi(database())
  const { document } = agents
  expect([await problems(document), await lint(document)]).toEqual([[], []])
  expect(document.openapi).toBe('3.1.0')
  const responses = { 200: {}, 400: {}, 401: {}, 403: {}, 409: {}, 429: {}, 503: {} }
  const sync = document.paths['/agent/v1/sync']?.['post']
  expect(sync).toMatchObject({ security: [{ bearer: [] }], responses })
  await agents.close()
})

const ID = '0b0f1c3e-6a55-4d3f-9a5e-0a6f6d2f9a01'

test.each([
  ['GET', '/v1/accounts', 'GET /v1/accounts/me'],
  ['PATCH', `/v1/accounts/${ID}/members/${ID}`, 'vedette keys'],
  ['GET', `/v2/check-groups/${ID}/checks/${ID}`, '/v1/checks?groupId='],
  ['GET', `/v3/checks/${ID}?limit=1`, 'GET /v1/checks/{id}'],
  ['GET', '/v1/static-ipv6s-by-region', 'GET /v1/private-locations'],
  ['POST', '/next/checkly-storage/upload-code-bundle', 'POST /v1/apply'],
])('%s %s answers 501 with what to use', async (method, path, instead) => {
  const answer = await fetch(`${api.url}${path}`, { method })
  const message = expect.stringContaining(instead)
  expect(answer.status).toBe(501)
  expect(await answer.json()).toEqual({ statusCode: 501, error: 'Not Implemented', message })
})

test('a check without a type is refused with the path to use', async () => {
  const answer = await fetch(`${api.url}/v1/checks`, { method: 'POST' })
  expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
  expect(await answer.json()).toMatchObject({
    message: expect.stringContaining('POST /v1/checks/url'),
  })
})
