// The watch of headers reports enough that the agent learns of values that are too long or too many.
import { request } from 'node:http'
import { createRequire } from 'node:module'
import { expect, test } from 'vitest'
import { LIMITS } from '../../../src/contract/versions.ts'
import { ObservedHeader } from '../../../src/scripts/playwright/observed-headers.ts'
import { startHttpServer } from '../../support/test-server.ts'

type Watch = (
  source: string,
  report: (name: string, value: string) => void,
) => (name: string, values: string | string[]) => void
const watchHeaders = createRequire(import.meta.url)(
  '../../../src/scripts/in-run/header-watch.cjs',
) as Watch

/** The values that the watch reports of these. */
function reportedOf(values: string | string[]): string[] {
  const reported: string[] = []
  watchHeaders('^cookie$', (_, value) => reported.push(value))('Cookie', values)
  return reported
}

test.each<[string, (url: string, authorization: string) => Promise<unknown>]>([
  ['fetch', (url, authorization) => fetch(url, { headers: { authorization } })],
  [
    'node:http',
    (url, authorization) =>
      new Promise((_, reject) => request(url, { headers: { authorization } }).on('error', reject)),
  ],
])('a request by %s that reaches nobody is reported', async (name, send) => {
  const reported: string[] = []
  watchHeaders('^authorization$', (_, value) => reported.push(value))
  const server = await startHttpServer(() => undefined)
  await server.close()
  await expect(send(`http://${server.authority}/`, `Bearer by-${name}`)).rejects.toThrow(
    /ECONNREFUSED|fetch failed/,
  )
  expect(reported).toEqual([`Bearer by-${name}`])
})

test('a value that is no text hides none of the others', () => {
  const values = [Object.create(null), 'a'] as string[]
  expect(reportedOf(values)).toEqual(['a'])
})

test('that a value is longer than a secret may be shows after a scheme, too', () => {
  const [value] = reportedOf(`Bearer ${'x'.repeat(2 * LIMITS.secretCharactersMax)}`)
  const observed = ObservedHeader.parse({ name: 'cookie', value })
  expect(observed.value.slice('Bearer '.length).length).toBeGreaterThan(LIMITS.secretCharactersMax)
})

test('more values than a run may know are reported, and not without end', () => {
  const values = Array.from({ length: 2 * LIMITS.secretValuesMax }, (_, at) => `value ${at}`)
  expect(reportedOf(values)).toHaveLength(LIMITS.secretValuesMax + 1)
})

test('more characters than a run may know are reported, and not without end', () => {
  const value = 'x'.repeat(LIMITS.secretCharactersMax)
  const count = (2 * LIMITS.secretsCharactersMax) / value.length
  const values = Array.from({ length: count }, (_, at) => `${at} ${value}`)
  const chars = reportedOf(values).join('').length
  expect(chars).toBeGreaterThan(LIMITS.secretsCharactersMax)
  expect(chars).toBeLessThan(1.1 * LIMITS.secretsCharactersMax)
})
