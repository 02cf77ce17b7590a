// Aim: URL and API monitors take what the public contract takes, with its defaults, and refuse the
// rest at the right place.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ApiMonitor, UrlMonitor } from '../../src/contract/http-monitor.ts'

const url = 'http://example.com/'

function pathsOf(checkType: 'URL' | 'API', request: Record<string, unknown>): string[] {
  const schema = checkType === 'URL' ? UrlMonitor : ApiMonitor
  const parsed = schema.safeParse({ id: 'a', name: 'A', checkType, request: { url, ...request } })
  return (parsed.error?.issues ?? []).map((one) => one.path.join('.'))
}

function assertion(source: string, comparison: string, more: Record<string, unknown> = {}) {
  return { assertions: [{ source, comparison, ...more }] }
}

test('the least API request gets every default', () => {
  const monitor = ApiMonitor.parse({
    id: 'a',
    name: 'A',
    checkType: 'API',
    request: { url, method: 'POST' },
  })
  expect(monitor).toMatchObject({ degradedResponseTime: 5000, maxResponseTime: 20_000 })
  expect(monitor.request).toEqual({
    url,
    method: 'POST',
    body: '',
    bodyType: 'NONE',
    headers: [],
    queryParameters: [],
    followRedirects: true,
    skipSSL: false,
    ipFamily: 'IPv4',
    allAddresses: false,
    assertions: [],
  })
})

describe('requests that are accepted', () => {
  test.each<[string, 'URL' | 'API', Record<string, unknown>]>([
    ['an address of 2,048 characters', 'URL', { url: url.padEnd(2048, 'x') }],
    ['IPv6 without verification', 'URL', { ipFamily: 'IPv6', skipSSL: true }],
    ...['GET', 'POST', 'PUT', 'HEAD', 'DELETE', 'PATCH', 'OPTIONS'].map(
      (method) => [`method ${method}`, 'API', { method }] as [string, 'API', { method: string }],
    ),
    ...['JSON', 'FORM', 'RAW', 'GRAPHQL', 'NONE'].map(
      (bodyType) =>
        [`a body of type ${bodyType}`, 'API', { method: 'POST', body: 'x', bodyType }] as [
          string,
          'API',
          Record<string, unknown>,
        ],
    ),
    [
      'headers and query in the wire form',
      'API',
      {
        method: 'GET',
        headers: [{ key: 'a', value: 'b', locked: true }],
        queryParameters: [{ key: 'a' }],
        basicAuth: { username: 'u', password: 'p' },
      },
    ],
    ['a status asserted by number', 'URL', assertion('STATUS_CODE', 'EQUALS', { target: 200 })],
    ['a list of status codes', 'API', { method: 'GET', ...assertion('STATUS_CODE', 'NOT_EMPTY') }],
    [
      'a header asserted by a part of it',
      'API',
      {
        method: 'GET',
        ...assertion('HEADERS', 'EQUALS', { property: 'date', target: 'x', regex: '(.*) GMT' }),
      },
    ],
  ])('%s', (_, checkType, request) => {
    expect(pathsOf(checkType, request)).toEqual([])
  })
})

describe('requests that are refused', () => {
  test.each<[string, 'URL' | 'API', Record<string, unknown>, string]>([
    ['an address of 2,049 characters', 'URL', { url: url.padEnd(2049, 'x') }, 'request.url'],
    ['an address without a scheme', 'URL', { url: 'example.com' }, 'request.url'],
    ['another scheme', 'URL', { url: 'ftp://example.com' }, 'request.url'],
    ['a method other than GET', 'URL', { method: 'POST' }, 'request.method'],
    ['headers on a URL monitor', 'URL', { headers: [] }, 'request'],
    ['no method on an API monitor', 'API', {}, 'request.method'],
    ['an unknown method', 'API', { method: 'TRACE' }, 'request.method'],
    ['an unknown type of body', 'API', { method: 'GET', bodyType: 'XML' }, 'request.bodyType'],
    [
      'a header without a name',
      'API',
      { method: 'GET', headers: [{ value: 'x' }] },
      'request.headers.0.key',
    ],
    ['an unknown IP family', 'URL', { ipFamily: 'IPv5' }, 'request.ipFamily'],
    [
      'a source that URL monitors do not have',
      'URL',
      assertion('JSON_BODY', 'NOT_NULL'),
      'request.assertions.0.source',
    ],
    [
      'a comparison that URL monitors do not have',
      'URL',
      assertion('STATUS_CODE', 'CONTAINS', { target: '2' }),
      'request.assertions.0.comparison',
    ],
    [
      'a status that is no number',
      'URL',
      assertion('STATUS_CODE', 'EQUALS', { target: 'ok' }),
      'request.assertions.0.target',
    ],
    [
      'a bad regular expression',
      'API',
      { method: 'GET', ...assertion('TEXT_BODY', 'NOT_EMPTY', { property: '(' }) },
      'request.assertions.0.property',
    ],
    [
      'a bad JSONPath',
      'API',
      { method: 'GET', ...assertion('JSON_BODY', 'NOT_NULL', { property: '$.[' }) },
      'request.assertions.0.property',
    ],
    ['a certificate that is none', 'URL', { tls: { ca: 'x' } }, 'request.tls.ca'],
    ['an unknown TLS setting', 'URL', { tls: { cert: 'x' } }, 'request.tls'],
    [
      'TLS versions the wrong way round',
      'URL',
      { tls: { minVersion: 'TLSv1.3', maxVersion: 'TLSv1.2' } },
      'request.tls.minVersion',
    ],
  ])('%s', (_, checkType, request, path) => {
    expect(pathsOf(checkType, request)).toEqual([path])
  })
})

describe('scripts', () => {
  const wrong = (more: Record<string, unknown>, request: Record<string, unknown> = {}) => {
    const fields = {
      id: 'a',
      name: 'A',
      checkType: 'API',
      request: { url, method: 'GET', ...request },
    }
    return (ApiMonitor.safeParse({ ...fields, ...more }).error?.issues ?? []).map((one) =>
      one.path.join('.'),
    )
  }
  const file = { path: 'a/b.ts', content: '1' }
  test.each<[string, Record<string, unknown>, string[]]>([
    [
      'with path and files',
      { localSetupScript: '1', setupScriptPath: 'a/s.ts', setupScriptDependencies: [file] },
      [],
    ],
    ['that are not there', { localSetupScript: null, tearDownScriptPath: '' }, []],
    ['without their text', { setupScriptPath: 's.ts' }, ['setupScriptPath']],
    ['by snippet', { setupSnippetId: 7, tearDownSnippetId: null }, ['setupSnippetId']],
    ['by snippet at the end', { tearDownSnippetId: 7 }, ['tearDownSnippetId']],
  ])('%s', (_, more, paths) => {
    expect(wrong(more)).toEqual(paths)
  })

  test('a tear-down script belongs to one answer', () => {
    expect(wrong({ localTearDownScript: '1' }, { allAddresses: true })).toEqual([
      'request.allAddresses',
    ])
    expect(wrong({ localSetupScript: '1' }, { allAddresses: true })).toEqual([])
  })

  test('an address may begin with a variable where a set-up script may set it', () => {
    const setUp = { localSetupScript: '1' }
    expect(wrong(setUp, { url: '{{ BASE }}/x' })).toEqual([])
    expect(wrong(setUp, { url: '{{ $BASE }}/x' })).toEqual(['request.url'])
    expect(wrong({}, { url: '{{ BASE }}/x' })).toEqual(['request.url'])
  })
})

describe('certificates and keys', () => {
  let folder: string
  const read = (name: string) => readFileSync(join(folder, name), 'utf8')

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'vedette-tls-'))
    for (const name of ['a', 'b']) {
      execFileSync(
        'openssl',
        `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=${name} -keyout ${name}.key -out ${name}.crt`.split(
          ' ',
        ),
        { cwd: folder, stdio: 'ignore' },
      )
    }
    execFileSync('openssl', 'ec -in a.key -aes256 -passout pass:secret -out a.enc'.split(' '), {
      cwd: folder,
      stdio: 'ignore',
    })
  })
  afterAll(() => rmSync(folder, { recursive: true }))

  const tls = (settings: Record<string, string>) => pathsOf('URL', { tls: settings })

  test('a pair that belongs together is accepted', () => {
    expect(
      tls({ ca: read('b.crt'), certificate: read('a.crt'), privateKey: read('a.key') }),
    ).toEqual([])
  })

  test('an encrypted key is accepted with its passphrase only', () => {
    const pair = { certificate: read('a.crt'), privateKey: read('a.enc') }
    expect(tls({ ...pair, passphrase: 'secret' })).toEqual([])
    expect(tls({ ...pair, passphrase: 'wrong' })).toEqual(['request.tls.privateKey'])
    expect(tls(pair)).toEqual(['request.tls.privateKey'])
  })

  test('the key of another certificate is refused', () => {
    expect(tls({ certificate: read('a.crt'), privateKey: read('b.key') })).toEqual([
      'request.tls.privateKey',
    ])
  })

  test('a certificate without its key, and a key without its certificate, are refused', () => {
    expect(tls({ certificate: read('a.crt') })).toEqual(['request.tls.certificate'])
    expect(tls({ privateKey: read('a.key') })).toEqual(['request.tls.privateKey'])
  })

  test('a damaged certificate is refused', () => {
    const damaged = read('a.crt').replace(/\n[A-Za-z0-9+/]{10}/, '\nAAAAAAAAAA')
    expect(tls({ ca: damaged })).toEqual(['request.tls.ca'])
  })
})
