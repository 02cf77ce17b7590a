// Aim: URL and API monitors take what the public contract takes, and refuse the rest at the right place.
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

const asserts = (source: string, comparison: string, target?: string | number) => ({
  assertions: [{ source, comparison, ...(target !== undefined && { target }) }],
})

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

const parts = {
  headers: [{ key: 'a', value: 'b', locked: true }],
  queryParameters: [{ key: 'a' }],
  basicAuth: { username: 'u', password: 'p' },
}
const versions = { minVersion: 'TLSv1.3', maxVersion: 'TLSv1.2' }
const status = (comparison: string, target: string) => asserts('STATUS_CODE', comparison, target)
const authority = createAuthority()
const passphrase = 'secret'
const issued = (options: { passphrase?: string } = {}) => {
  const { cert: certificate, key: privateKey } = authority.issue(options)
  return { certificate, privateKey }
}
const [pair, { privateKey }, locked] = [issued(), issued(), issued({ passphrase })]
const damaged = authority.ca.replace(/\n[A-Za-z0-9+/]{10}/, '\nAAAAAAAAAA')
const tls = (settings: object) => ({ tls: settings })

test.each<[string, 'URL' | 'API', object, ...paths: string[]]>([
  ['an address of 2,048 characters', 'URL', { url: url.padEnd(2048, 'x') }],
  ['IPv6 without verification', 'URL', { ipFamily: 'IPv6', skipSSL: true }],
  ['headers and query in the wire form', 'API', parts],
  ['a status asserted by number', 'URL', asserts('STATUS_CODE', 'EQUALS', 200)],
  ['an address of 2,049 characters', 'URL', { url: url.padEnd(2049, 'x') }, 'url'],
  ['another scheme', 'URL', { url: 'ftp://example.com' }, 'url'],
  ['a method other than GET', 'URL', { method: 'POST' }, 'method'],
  ['headers on a URL monitor', 'URL', { headers: [] }, ''],
  ['no method on an API monitor', 'API', { method: undefined }, 'method'],
  ['an unknown method', 'API', { method: 'TRACE' }, 'method'],
  ['a source of API monitors', 'URL', asserts('JSON_BODY', 'NOT_NULL'), 'assertions.0.source'],
  ['a comparison of API monitors', 'URL', status('CONTAINS', '2'), 'assertions.0.comparison'],
  ['a status that is no number', 'URL', status('EQUALS', 'ok'), 'assertions.0.target'],
  ['an unknown TLS setting', 'URL', tls({ cert: 'x' }), 'tls'],
  ['TLS versions the wrong way round', 'URL', tls(versions), 'tls.minVersion'],
  ['a pair that belongs together', 'URL', tls({ ...pair, ca: authority.ca })],
  ['an encrypted key with its passphrase', 'URL', tls({ ...locked, passphrase })],
  ['an encrypted key with another', 'URL', tls({ ...locked, passphrase: 'x' }), 'tls.privateKey'],
  ['an encrypted key without one', 'URL', tls(locked), 'tls.privateKey'],
  ['the key of another certificate', 'URL', tls({ ...pair, privateKey }), 'tls.privateKey'],
  ['no key', 'URL', tls({ certificate: pair.certificate }), 'tls.certificate'],
  ['a key without its certificate', 'URL', tls({ privateKey }), 'tls.privateKey'],
  ['a damaged certificate', 'URL', tls({ ca: damaged }), 'tls.ca'],
])('%s', (_, checkType, request, ...paths) => {
  const wrong = paths.map((path) => (path === '' ? 'request' : `request.${path}`))
  expect(pathsOf(checkType, request)).toEqual(wrong)
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

  test('a tear-down script belongs to one answer; a set-up script may set the address', () => {
    const setUp = { localSetupScript: '1' }
    const all = { allAddresses: true }
    expect(wrong({ localTearDownScript: '1' }, all)).toEqual(['request.allAddresses'])
    expect(wrong(setUp, all)).toEqual([])
    expect(wrong(setUp, { url: '{{ BASE }}/x' })).toEqual([])
    expect(wrong(setUp, { url: '{{ $BASE }}/x' })).toEqual(['request.url'])
    expect(wrong({}, { url: '{{ BASE }}/x' })).toEqual(['request.url'])
  })
})

test('TLS versions have two spellings', () => {
  const written = ['TLSv1', 'TLS1.0', 'TLSv1.2', 'TLS1.2']
  const read = written.map((minVersion) => TlsSettings.parse({ minVersion }).minVersion)
  expect(read).toEqual(['TLSv1', 'TLSv1', 'TLSv1.2', 'TLSv1.2'])
})
