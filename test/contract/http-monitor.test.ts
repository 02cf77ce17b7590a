// Aim: URL and API monitors take what the public contract takes, with its defaults, and refuse the
// rest at the right place.
import { describe, expect, test } from 'vitest'
import { ApiMonitor, UrlMonitor } from '../../src/contract/http-monitor.ts'
import { TlsSettings } from '../../src/contract/tls.ts'
import { createAuthority } from '../support/network/certificates.ts'

const url = 'http://example.com/'

/** The places of the problems of a monitor with this request and these fields. */
function pathsOf(checkType: 'URL' | 'API', request: object, fields: object = {}): string[] {
  const [schema, method] = checkType === 'URL' ? [UrlMonitor] : [ApiMonitor, { method: 'GET' }]
  const whole = { id: 'a', name: 'A', checkType, request: { url, ...method, ...request } }
  const { error } = schema.safeParse({ ...whole, ...fields })
  return (error?.issues ?? []).map((one) => one.path.join('.'))
}

function asserts(source: string, comparison: string, more: Record<string, unknown> = {}) {
  return { assertions: [{ source, comparison, ...more }] }
}

test('the least API request gets every default', () => {
  const request = { url, method: 'POST' }
  const monitor = ApiMonitor.parse({ id: 'a', name: 'A', checkType: 'API', request })
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
  const parts = {
    headers: [{ key: 'a', value: 'b', locked: true }],
    queryParameters: [{ key: 'a' }],
    basicAuth: { username: 'u', password: 'p' },
  }
  test.each<[string, 'URL' | 'API', Record<string, unknown>]>([
    ['an address of 2,048 characters', 'URL', { url: url.padEnd(2048, 'x') }],
    ['IPv6 without verification', 'URL', { ipFamily: 'IPv6', skipSSL: true }],
    ['headers and query in the wire form', 'API', parts],
    ['a status asserted by number', 'URL', asserts('STATUS_CODE', 'EQUALS', { target: 200 })],
  ])('%s', (_, checkType, request) => {
    expect(pathsOf(checkType, request)).toEqual([])
  })
})

describe('requests that are refused', () => {
  const versions = { minVersion: 'TLSv1.3', maxVersion: 'TLSv1.2' }
  const status = (comparison: string, target: string) =>
    asserts('STATUS_CODE', comparison, { target })
  test.each<[string, 'URL' | 'API', Record<string, unknown>, string]>([
    ['an address of 2,049 characters', 'URL', { url: url.padEnd(2049, 'x') }, 'url'],
    ['an address without a scheme', 'URL', { url: 'example.com' }, 'url'],
    ['another scheme', 'URL', { url: 'ftp://example.com' }, 'url'],
    ['a method other than GET', 'URL', { method: 'POST' }, 'method'],
    ['headers on a URL monitor', 'URL', { headers: [] }, ''],
    ['no method on an API monitor', 'API', { method: undefined }, 'method'],
    ['an unknown method', 'API', { method: 'TRACE' }, 'method'],
    ['a source of API monitors', 'URL', asserts('JSON_BODY', 'NOT_NULL'), 'assertions.0.source'],
    ['a comparison of API monitors', 'URL', status('CONTAINS', '2'), 'assertions.0.comparison'],
    ['a status that is no number', 'URL', status('EQUALS', 'ok'), 'assertions.0.target'],
    ['a certificate that is none', 'URL', { tls: { ca: 'x' } }, 'tls.ca'],
    ['an unknown TLS setting', 'URL', { tls: { cert: 'x' } }, 'tls'],
    ['TLS versions the wrong way round', 'URL', { tls: versions }, 'tls.minVersion'],
  ])('%s', (_, checkType, request, path) => {
    expect(pathsOf(checkType, request)).toEqual([path === '' ? 'request' : `request.${path}`])
  })
})

describe('scripts', () => {
  const wrong = (fields: object, request: object = {}) => pathsOf('API', request, fields)
  const file = { path: 'a/b.ts', content: '1' }
  const whole = { setupScriptPath: 'a/s.ts', setupScriptDependencies: [file] }
  test.each<[string, Record<string, unknown>, string[]]>([
    ['with path and files', { localSetupScript: '1', ...whole }, []],
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

test.each([
  ['TLSv1', 'TLSv1'],
  ['TLS1.0', 'TLSv1'],
  ['TLSv1.2', 'TLSv1.2'],
  ['TLS1.2', 'TLSv1.2'],
])('the TLS version %s is %s', (written, version) => {
  expect(TlsSettings.parse({ minVersion: written })).toEqual({ minVersion: version })
})

describe('certificates and keys', () => {
  const authority = createAuthority()
  const passphrase = 'secret'
  const [pair, other, locked] = [{}, {}, { passphrase }].map((options) => {
    const { cert, key } = authority.issue(options)
    return { certificate: cert, privateKey: key }
  }) as [Pair, Pair, Pair]

  test.each<[string, object, string[]]>([
    ['a pair that belongs together', { ...pair, ca: authority.ca }, []],
    ['an encrypted key with its passphrase', { ...locked, passphrase }, []],
    ['an encrypted key with another', { ...locked, passphrase: 'wrong' }, ['privateKey']],
    ['an encrypted key without one', locked, ['privateKey']],
    ['the key of another certificate', { ...pair, privateKey: other.privateKey }, ['privateKey']],
    ['a certificate without its key', { certificate: pair.certificate }, ['certificate']],
    ['a key without its certificate', { privateKey: pair.privateKey }, ['privateKey']],
    ['a damaged certificate', { ca: damaged(authority.ca) }, ['ca']],
  ])('%s', (_, tls, wrong) => {
    expect(pathsOf('URL', { tls })).toEqual(wrong.map((one) => `request.tls.${one}`))
  })
})

interface Pair {
  certificate: string
  privateKey: string
}

function damaged(pem: string): string {
  return pem.replace(/\n[A-Za-z0-9+/]{10}/, '\nAAAAAAAAAA')
}
