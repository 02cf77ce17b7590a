// When the proxy to the platform is used: the forms of NO_PROXY, and the parts of the proxy's address.
import { describe, expect, test } from 'vitest'
import { isExempt, proxyFor } from '../../../src/agent/platform/proxy.ts'

describe('NO_PROXY', () => {
  test.each<[string, string, boolean]>([
    ['*', 'https://any.example.com', true],
    ['example.com', 'https://a.example.com', true],
    ['example.com', 'https://notexample.com', false],
    ['.example.com', 'https://example.com', true],
    ['*.example.com', 'https://a.example.com', true],
    ['*.example.com', 'https://example.com', false],
    ['EXAMPLE.com', 'https://Example.COM', true],
    ['example.com:8443', 'https://example.com', false],
    ['example.com:443', 'https://example.com', true],
    ['10.1.2.3:3000', 'https://10.1.2.3:3000', true],
    ['10.0.0.0/8', 'https://10.1.2.3', true],
    ['10.0.0.0/8', 'https://11.1.2.3', false],
    ['10.0.0.0/99', 'https://10.1.2.3', false],
    ['fd00::/8', 'https://[fd12::1]', true],
    ['[::1]:3000', 'https://[::1]:3000', true],
    ['[::1]:3000', 'https://[::1]:4000', false],
    ['', 'https://example.com', false],
    ['.', 'https://example.com', false],
  ])('%j exempts %s: %s', (entry, url, exempt) => {
    expect(isExempt(new URL(url), [entry])).toBe(exempt)
  })
})

test('the proxy is none where none is set, and where the host is exempt', () => {
  const url = new URL('https://platform.test')
  expect(proxyFor(url, undefined, [])).toBeUndefined()
  expect(proxyFor(url, 'http://proxy.test', ['platform.test'])).toBeUndefined()
})

const authorization = `Basic ${Buffer.from('user:p:ss').toString('base64')}`
test.each([
  ['http://proxy.test', { host: 'proxy.test', port: 80, secure: false }],
  ['https://proxy.test', { host: 'proxy.test', port: 443, secure: true }],
  ['http://[::1]:3128', { host: '::1', port: 3128, shown: 'http://[::1]:3128' }],
  ['http://user:p%3Ass@proxy.test:3128', { shown: 'http://proxy.test:3128', authorization }],
])('the proxy %s', (proxyUrl, expected) => {
  expect(proxyFor(new URL('https://platform.test'), proxyUrl, [])).toMatchObject(expected)
})
