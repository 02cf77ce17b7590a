// Headers are read from logs of browsers as Chromium writes them, and from nothing that user code puts in their place.
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readBrowserLogs } from '../../../src/scripts/playwright/browser-headers.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const event = (params: unknown) => `${JSON.stringify({ params, phase: 1, type: 245 })},\n`

/** What is seen of logs, by name; a log may be a link to another file. */
async function seen(logs: Record<string, string | { link: string }>) {
  const folder = temporaryFolder()
  const at = join(folder, 'logs')
  mkdirSync(at)
  for (const [name, log] of Object.entries(logs)) {
    if (typeof log === 'string') writeFileSync(join(at, name), log)
    else symlinkSync(log.link, join(at, name))
  }
  const all: string[] = []
  const saw = (name: string, value: string) => all.push(`${name}=${value}`)
  await readBrowserLogs(at, folder, { sensitive: '', saw })
  return all
}

const COOKIES = event({ headers: ['HTTP/1.1 200 OK', 'Set-Cookie: a=b: c', 'X-Empty:'] })

test('heads of HTTP/1 and HTTP/2, and of requests that are not sent yet', async () => {
  const log = [
    COOKIES,
    event({ headers: [':authority: shop', 'cookie: d=e'], fin: true }),
    event({ request_headers: { headers: ['Authorization: f'], line: 'GET / HTTP/1.1\r\n' } }),
  ].join('')
  expect(await seen({ '1.ndjson': log })).toEqual([
    'Set-Cookie=a=b: c',
    'X-Empty=',
    ':authority=shop',
    'cookie=d=e',
    'Authorization=f',
  ])
})

test('a value that is not ASCII', async () => {
  const log = event({ headers: ['%ESCAPED:\u200B cookie: caf%C3%A9 100%25'] })
  expect(await seen({ '1.ndjson': log })).toEqual(['cookie=café 100%'])
  const latin1 = event({ headers: ['%ESCAPED:\u200B cookie: caf%E9'] })
  expect(await seen({ '1.ndjson': latin1 })).toEqual(['cookie=café'])
})

test('each browser has a log, and what is no event ends none of them', async () => {
  const odd = `{"constants":{}}\nnull\n[\n${event({ headers: [7] })}${event({})}`
  const logs = { '1.ndjson': `${odd}${COOKIES}`, '2.ndjson': COOKIES }
  expect(await seen(logs)).toEqual([
    'Set-Cookie=a=b: c',
    'X-Empty=',
    'Set-Cookie=a=b: c',
    'X-Empty=',
  ])
})

test('links to other files are not read', async () => {
  const outside = join(temporaryFolder(), 'other')
  writeFileSync(outside, COOKIES)
  expect(await seen({ '1.ndjson': { link: outside }, '2.ndjson': { link: '/dev/zero' } })).toEqual(
    [],
  )
})

test('a run without a browser', async () => {
  const folder = temporaryFolder()
  const saw = () => expect.fail('there is no header')
  await readBrowserLogs(join(folder, 'none'), folder, { sensitive: '', saw })
})

test('more logs than a run has browsers are not read', async () => {
  const many = Object.fromEntries(
    Array.from({ length: 4_100 }, (_, at) => [`${at}.ndjson`, COOKIES]),
  )
  expect((await seen(many)).length).toBe(2 * 4_000)
})
