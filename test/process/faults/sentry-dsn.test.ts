// Aim: DSNs are parsed as by Sentry's SDKs, and nothing else is accepted as one.
import { expect, test } from 'vitest'
import { dsnProblem, parseDsn } from '../../../src/process/faults/sentry-dsn.ts'

test.each([
  ['http://k@host.example:9000/1', 'http://host.example:9000'],
  ['https://k@[::1]:9000/1', 'https://[::1]:9000'],
  ['https://k@host.example/a/b/1', 'https://host.example/a/b'],
  ['https://k:old@host.example/1', 'https://host.example'],
])('%s', (text, baseUrl) => {
  expect(parseDsn(text)).toEqual({ baseUrl, path: '/api/1/envelope/', key: 'k' })
  expect(dsnProblem(text)).toBeUndefined()
})

test.each([
  ['a word', 'dsn'],
  ['no key', 'https://host.example/1'],
  ['no project', 'https://k@host.example/'],
  ['a slash at the end', 'https://k@host.example/1/'],
  ['another scheme', 'ftp://k@host.example/1'],
  ['a query', 'https://k@host.example/1?a=b'],
  ['a fragment', 'https://k@host.example/1#a'],
  ['a key with a comma, which would be two fields of the header', 'https://k,a=b@host.example/1'],
  ['two in one', 'https://k@host.example/1 https://k@host.example/2'],
])('not a DSN: %s', (_, text) => {
  expect(parseDsn(text)).toBeUndefined()
  expect(JSON.stringify(dsnProblem(text))).not.toContain('host.example')
})
