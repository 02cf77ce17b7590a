// Aim: the API's documents are valid, say what the API does, need no internet, and distinguish the frozen
// document from the present one.
import { execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
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

/** Errors of the linter with its recommended rules. */
async function lint(document: object): Promise<string[]> {
  const file = join(temporaryFolder(), 'openapi.json')
  writeFileSync(file, JSON.stringify(document))
  const linter = fileURLToPath(new URL('../../../../node_modules/.bin/redocly', import.meta.url))
  // Nothing leaves this machine: no usage figures, no check for a newer version.
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }
  const child = spawn(linter, ['lint', '--format=json', file], {
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  let text = ''
  for await (const chunk of child.stdout) text += String(chunk)
  const report = JSON.parse(text) as { problems: { severity: string; ruleId: string }[] }
  return report.problems.filter((one) => one.severity === 'error').map((one) => one.ruleId)
}

test('the root leads to the pages', async () => {
  const { status, headers } = await fetch(`${api.url}/`, { redirect: 'manual' })
  expect([status, headers.get('location')]).toEqual([302, '/docs'])
})

test.each(['/openapi.json', '/docs'])(
  '%s is compressed for clients that accept it',
  async (path) => {
    const plain = await fetch(`${api.url}${path}`, { headers: { 'Accept-Encoding': 'gzip;q=0' } })
    const packed = await fetch(`${api.url}${path}`, { headers: { 'Accept-Encoding': 'br, gzip' } })
    expect(packed.headers.get('content-encoding')).toBe('gzip')
    expect(plain.headers.get('content-encoding')).toBeNull()
    expect(await packed.text()).toBe(await plain.text())
  },
)

describe('/openapi.json', () => {
  test('is valid OpenAPI 3.1 and titled with v1', async () => {
    expect(await problems(api.document)).toEqual([])
    expect(api.document.openapi).toBe('3.1.0')
    expect(api.document.info.title).toContain('v1')
  })

  test('passes the linter', async () => {
    expect(await lint(api.document)).toEqual([])
  })

  test('declares 501 where this version does not support an operation', () => {
    const refusing = Object.values(api.document.paths).flatMap((methods) =>
      Object.values(methods as Loose).filter((one: Loose) => '501' in one.responses),
    )
    expect(new Set(refusing.map((one: Loose) => one.operationId))).toEqual(
      new Set(['postV1StatuspagesStatuspageidSubscriptionsBulk']),
    )
  })

  test('documents the listing as in the contract', () => {
    const listing = api.document.paths['/v1/status-pages/incidents']?.['get'] as Loose
    expect(listing.operationId).toBe('getV1StatuspagesIncidents')
    expect(listing.tags).toEqual(['Status Page Incidents'])
    expect(listing.security).toEqual([{ bearer: [] }])
    expect(Object.keys(listing.responses)).toEqual(
      expect.arrayContaining(['200', '401', '403', '404', '429']),
    )
    const [limit, nextId, account] = listing.parameters
    expect(limit).toMatchObject({
      name: 'limit',
      required: false,
      schema: { type: 'integer', minimum: 1, maximum: 100, default: 20 },
    })
    expect(nextId).toMatchObject({ name: 'nextId', required: false, schema: { type: 'string' } })
    expect(account).toMatchObject({ name: 'X-Service-Account', required: true })
    const { StatusPageIncident, StatusPageService, StatusPageIncidentUpdate } = api.document
      .components.schemas as Loose
    expect(StatusPageIncident.required.toSorted()).toEqual(
      [
        'name',
        'severity',
        'id',
        'services',
        'incidentUpdates',
        'lastUpdateStatus',
        'created_at',
      ].toSorted(),
    )
    expect(StatusPageIncident.properties).toMatchObject({
      name: { maxLength: 255 },
      severity: { enum: ['CRITICAL', 'MAJOR', 'MEDIUM', 'MINOR'] },
      lastUpdateStatus: { enum: ['INVESTIGATING', 'IDENTIFIED', 'MONITORING', 'RESOLVED'] },
      duration: { type: ['integer', 'null'] },
      created_at: { format: 'date' },
    })
    expect(StatusPageService.required.toSorted()).toEqual(['accountId', 'created_at', 'id', 'name'])
    expect(StatusPageIncidentUpdate.required.toSorted()).toEqual([
      'created_at',
      'description',
      'id',
    ])
  })

  test('has attributes in the bodies of 401 and 429 only', () => {
    const schemas = Object.entries(api.document.components.schemas as Record<string, Loose>)
    const having = schemas.filter(
      ([name, schema]) => name.endsWith('Error') && schema.properties.attributes,
    )
    expect(having.map(([name]) => name).toSorted()).toEqual([
      'TooManyRequestsError',
      'UnauthorizedError',
    ])
  })

  test('has an example for every JSON body, which fits its schema', () => {
    const ajv = new Ajv2020({ strict: false })
    ;(formats as unknown as (to: Ajv2020) => void)(ajv)
    ajv.addSchema(structuredClone(api.document), 'document')
    const problemsOf = (schema: Loose): string[] => {
      const id: string | undefined = schema.$ref
      const named = id === undefined ? schema : resolved(id)
      if (named.example === undefined)
        return named.anyOf?.flatMap(problemsOf) ?? [`${id} has no example`]
      const validate = ajv.compile({ $ref: `document${id}` })
      return validate(named.example) ? [] : [`${id}: ${ajv.errorsText(validate.errors)}`]
    }
    const resolved = (ref: string) =>
      (api.document.components.schemas as Loose)[ref.split('/').at(-1) ?? '']
    const bodies = Object.values(api.document.paths).flatMap((methods) =>
      Object.values(methods as Loose).flatMap((one: Loose) => {
        const schema = one.requestBody?.content['application/json']?.schema
        return schema === undefined ? [] : [schema]
      }),
    )
    expect(bodies.length).toBeGreaterThan(40)
    expect(bodies.flatMap(problemsOf)).toEqual([])
  })

  test('documents the fields of a check of any type', () => {
    const put: Loose = api.document.paths['/v1/checks/{id}']?.['put']
    const { schema } = put.requestBody.content['application/json']
    expect(schema).toEqual({ $ref: '#/components/schemas/CheckInput' })
    const { CheckInput } = api.document.components.schemas as Loose
    const types = CheckInput.anyOf.map((one: Loose) => one.$ref.split('/').at(-1))
    expect(types).toEqual(expect.arrayContaining(['UrlCheckInput', 'PlaywrightCheckInput']))
    expect(types).toHaveLength(DEFINED_TYPES.length)
  })

  test('describes each header once', () => {
    const answers = Object.values(api.document.paths).flatMap((methods) =>
      Object.values(methods).flatMap(({ responses }) => Object.values(responses)),
    )
    const headers = answers.flatMap((answer) => Object.entries(answer.headers ?? {}))
    expect(headers.length).toBeGreaterThan(1000)
    const { components } = api.document as Loose
    for (const [name, header] of headers) {
      expect([name, header]).toEqual([name, { $ref: `#/components/headers/${name}` }])
      expect(components.headers[name].description).toEqual(expect.any(String))
    }
  })

  test('declares a default of the public date of an update', () => {
    const { StatusPageIncidentUpdate, StatusPageIncidentUpdateInput } = api.document.components
      .schemas as Loose
    for (const { properties } of [StatusPageIncidentUpdate, StatusPageIncidentUpdateInput]) {
      const { format, default: declared } = properties.publicIncidentUpdateDate
      expect([format, new Date(declared).toISOString()]).toEqual(['date-time', declared])
    }
  })

  test('names every operation once', () => {
    const names = Object.values(api.document.paths).flatMap((methods) =>
      Object.values(methods).map(({ operationId }) => operationId),
    )
    expect(new Set(names).size).toBe(names.length)
  })

  test('answers 304 without a body when it is known', async () => {
    const first = await fetch(`${api.url}/openapi.json`)
    await first.text()
    const tag = first.headers.get('etag') ?? ''
    const again = await fetch(`${api.url}/openapi.json`, {
      headers: { 'if-none-match': `"x", W/${tag}` },
    })
    expect([again.status, await again.text()]).toEqual([304, ''])
    expect(first.headers.get('cache-control')).toBe('public, max-age=3600')
  })
})

describe('/swagger.json', () => {
  /** It is never updated: a change must be made here, too. */
  const CHECKSUM = 'd63be8bc6ad9fcd96389d7cc4db32fe6d62c6f2d6134377dc020894c4e78c918'

  test('is the file that was frozen, valid Swagger 2.0, and names its successor', async () => {
    const response = await fetch(`${api.url}/swagger.json`)
    const text = await response.text()
    expect(await problems(JSON.parse(text))).toEqual([])
    expect(JSON.parse(text).swagger).toBe('2.0')
    expect(response.headers.get('deprecation')).toMatch(/^@\d+$/)
    expect(response.headers.get('link')).toBe(
      '</openapi.json>; rel="successor-version"; type="application/json"',
    )
    const file = readFileSync(
      new URL('../../../../src/platform/http/docs/swagger.json', import.meta.url),
    )
    expect(createHash('sha256').update(file).digest('hex')).toBe(CHECKSUM)
  })
})

describe('/docs', () => {
  test('shows every operation and loads nothing from elsewhere', async () => {
    const response = await fetch(`${api.url}/docs`)
    const html = await response.text()
    for (const methods of Object.values(api.document.paths)) {
      for (const { operationId } of Object.values(methods))
        expect(html).toContain(`id="${operationId}"`)
    }
    expect(html).not.toMatch(/<script|<link|<img|src=|href="(?![#/])|url\(|@import/)
    expect(response.headers.get('content-security-policy')).toContain("default-src 'none'")
  })

  test('has a table of contents by tag, whose links all lead somewhere', async () => {
    const html = await (await fetch(`${api.url}/docs`)).text()
    const [contents = ''] = /<nav[\s\S]*<\/nav>/.exec(html) ?? []
    const links = [...contents.matchAll(/href="#([^"]+)"/g)].map(([, id]) => id)
    const ids = new Set([...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id))
    expect(links.filter((id) => !ids.has(id))).toEqual([])
    const operations = Object.values(api.document.paths).flatMap((methods) =>
      Object.values(methods).map(({ operationId }) => operationId),
    )
    expect(links).toEqual(expect.arrayContaining(operations))
  })

  test('an example is a line of shell that creates the check', async ({ skip }) => {
    const why = missing('curl')
    skip(why !== undefined, why)
    await makeLocation(client, 'data-center')
    const html = await (await fetch(`${api.url}/docs`)).text()
    const section = html.slice(html.indexOf('id="postV1ChecksBrowser"'))
    const [, line = ''] = /<pre>([\s\S]*?)<\/pre>/.exec(section) ?? []
    const script = line.replaceAll('&quot;', '"').replaceAll('&amp;', '&')
    const env = { PATH: process.env['PATH'], PLATFORM_URL: api.url }
    const { stdout } = await promisify(execFile)('sh', ['-c', script], {
      env: { ...env, ACCOUNT_ID: client.accountId, API_KEY: client.secret },
    })
    expect(JSON.parse(stdout)).toMatchObject({ checkType: 'BROWSER', name: 'Shop' })
  })

  test('shows text in backticks as code, and bounds separate from meanings', async () => {
    const html = await (await fetch(`${api.url}/docs`)).text()
    expect(html).not.toContain('`')
    expect(html).toContain('<code>locations</code> (public regions)')
    expect(html).toContain('integer, from 1, to 100, default 10. Entries in a page')
  })
})

describe('/agent/v1/openapi.json', () => {
  test('is valid OpenAPI 3.1, passes the linter, and needs no key', async () => {
    const agents = await startAgentsApi(database())
    expect(await problems(agents.document)).toEqual([])
    expect(await lint(agents.document)).toEqual([])
    expect(agents.document.openapi).toBe('3.1.0')
    const sync = agents.document.paths['/agent/v1/sync']?.['post'] as Loose
    expect(sync.security).toEqual([{ bearer: [] }])
    expect(Object.keys(sync.responses)).toEqual(
      expect.arrayContaining(['200', '400', '401', '403', '409', '429', '503']),
    )
    await agents.close()
  })
})

const ID = '0b0f1c3e-6a55-4d3f-9a5e-0a6f6d2f9a01'

test.each([
  ['GET', '/v1/accounts', 'GET /v1/accounts/me'],
  ['GET', `/v1/accounts/${ID}/entitlements`, 'There are no plans'],
  ['PATCH', `/v1/accounts/${ID}/members/${ID}`, 'vedette keys'],
  ['GET', `/v2/check-groups/${ID}/checks/${ID}`, '/v1/checks?groupId='],
  ['GET', `/v1/check-results/${ID}/${ID}/assets`, 'GET /v1/artifacts/{id}'],
  ['POST', '/v2/check-sessions/trigger', '/v1/checks/{id}/runs'],
  ['POST', '/v1/checks', 'POST /v1/checks/url'],
  ['GET', `/v3/checks/${ID}?limit=1`, 'GET /v1/checks/{id}'],
  ['PUT', '/v1/dashboards/x', 'There are no dashboards'],
  ['DELETE', `/v1/incidents/${ID}`, '/v1/status-pages/incidents'],
  ['GET', '/v1/runtimes/2026.04', 'GET /v1/runtimes'],
  ['GET', '/v1/static-ipv6s-by-region', 'GET /v1/private-locations'],
  ['GET', `/v1/test-session-error-groups/${ID}`, 'vedette check'],
  ['POST', '/next/checkly-storage/upload-code-bundle', 'POST /v1/apply'],
])('%s %s answers 501 with what to use', async (method, path, instead) => {
  const answer = await fetch(`${api.url}${path}`, { method })
  expect(answer.status).toBe(501)
  expect(await answer.json()).toEqual({
    statusCode: 501,
    error: 'Not Implemented',
    message: expect.stringContaining(instead),
  })
})

test.each(['/v1/nothing', '/v1', '/v1/incidentsx', '/v1/checks/nothing'])(
  '%s is an unknown route',
  async (path) => {
    expect((await fetch(`${api.url}${path}`)).status).toBe(404)
  },
)
