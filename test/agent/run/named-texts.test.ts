// Values of sensitive headers leave in no text of a program's run: console, errors, source or progress.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import { NamedTexts } from '../../../src/agent/run/named-texts.ts'
import { ProgressBoard } from '../../../src/agent/run/progress-board.ts'
import { createRunner } from '../../../src/agent/run/runner.ts'
import { createScrubber, SCRUBBED } from '../../../src/agent/redaction/scrub.ts'
import { LIMITS } from '../../../src/contract/versions.ts'
import { failure } from '../../../src/contract/failure.ts'
import type { Dialler } from '../../../src/network/dial.ts'
import { aMonitor, fakeType } from '../../support/agent/fake-monitors.ts'
import { startStopwatch } from '../../support/stopwatch.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const AUTH = 'Bearer RESPAUTH98765'
const COOKIE = 'sid=COOKIESECRET12345; path=/'
const HEADERS = { accept: 'a/b', authorization: AUTH, 'set-cookie': COOKIE }
const LINES = Object.entries(HEADERS).map((pair) => pair.join(': '))
const GONE = /RESPAUTH|COOKIESECRET|INLINEKEY/

const named = () => new NamedTexts(createScrubber({}))

describe('a text', () => {
  test.each([
    ['JSON', JSON.stringify(HEADERS)],
    ['JSON of several lines', JSON.stringify(HEADERS, null, 2)],
    ['JSON in JSON', JSON.stringify({ seen: JSON.stringify(HEADERS) })],
    ['JSON that was cut', JSON.stringify(HEADERS).slice(0, -20)],
    ['what a console shows of it', inspect(HEADERS)],
    ['the same with colours', inspect(HEADERS, { colors: true })],
    ['a map', inspect(new Map(Object.entries(HEADERS)))],
    ['pairs', inspect(Object.entries(HEADERS))],
    ['pairs in JSON', JSON.stringify(Object.entries(HEADERS))],
    ['a list', inspect(Object.entries(HEADERS).map(([name, value]) => ({ name, value })))],
    ['lines', LINES.join('\n')],
    ['source', `> 3 |   headers: { accept: 'a/b', 'x-api-key': 'INLINEKEY-9999' },`],
    ['source with a template', '> 3 |   accept: `a/b`, token: `INLINEKEY-9999`,'],
  ])('loses the values of sensitive names: %s', (_, text) => {
    const clean = named().text(text).replaceAll('\0', '')
    expect(clean).not.toMatch(GONE)
    expect(clean).toContain(SCRUBBED)
    expect(clean).toContain('a/b')
  })

  test.each([
    ['a variable of the environment', '  token: process.env.TOKEN,'],
    ['the same in a snippet', '> 3 |   token: process.env.TOKEN,'],
    ['a template of it', '> 3 |   authorization: `Bearer ${process.env.TOKEN}`,'],
    ['a label', `  await page.getByLabel('Password:').fill('x')`],
    ['a function', '  token: async ({ page }, use) => {'],
    ['texts that end with a name', '["Enter password:","b"]'],
    ['other names', `{"accept":"a/b","x": 'y'}`],
  ])('keeps ordinary source: %s', (_, text) => {
    expect(named().text(text)).toBe(text)
  })

  test('runs in linear time', () => {
    const text = ['token: ', '"token":"', `['token', `, `name: 'token', `, '\\"token\\":\\"']
    const ownMs = startStopwatch()
    for (const one of text) named().text(one.repeat(2000))
    expect(ownMs()).toBeLessThan(5000)
  })
})

describe('a run of a program', () => {
  const runOf = async (checkType: 'BROWSER' | 'URL', console: string, file?: string) => {
    const fake = fakeType()
    const [type] = [...fake.types.values()]
    const board = new ProgressBoard()
    const runner = createRunner({
      types: new Map(type && [[checkType, { ...type, checkType }]]),
      clock: createClock(),
      workRoot: temporaryFolder(),
      scrubHeaders: [],
      progress: board,
    })
    const monitor = { ...aMonitor('a'), checkType }
    const place = { location: 'office', variables: [], dial: {} as Dialler, secrets: [] }
    const running = runner.run({ monitor, slot: 1 }, place, new AbortController().signal)
    const run = await fake.next()
    const { context } = run
    if (file !== undefined) {
      const path = join(await context.workFolder(), 'trace.network')
      writeFileSync(path, file)
      context.attach(path)
    }
    context.progress?.({ phase: 'test', line: console })
    const line = board.slots()[0]?.line
    const message = `Error: with ${AUTH}`
    const failures = [failure('SCRIPT_FAILED', message, { stack: message, snippet: message })]
    run.end({ observed: { console: [{ type: 'stdout', text: console }] }, failures })
    return { result: await running, line }
  }

  test('reveals no value next to its name, nor the same value anywhere else', async () => {
    const { result, line } = await runOf('BROWSER', JSON.stringify(HEADERS))
    expect(JSON.stringify(result)).not.toMatch(GONE)
    expect(result.failures[0]?.message).toBe(`Error: with ${SCRUBBED}`)
    expect(line).toContain(SCRUBBED)
    expect(line).not.toMatch(GONE)
  })

  test('reveals no value of a header in its files', async () => {
    const network = `{"headers":[{"name":"Authorization","value":"${AUTH}"}]}\n`
    const { result } = await runOf('BROWSER', 'said RESPAUTH98765', network)
    expect(JSON.stringify(result)).not.toMatch(GONE)
    expect(result.attempts[0]?.failures[0]?.details).toEqual({
      stack: `Error: with ${SCRUBBED}`,
      snippet: `Error: with ${SCRUBBED}`,
    })
  })

  test('scrubs observed values from texts that were truncated within them', () => {
    const texts = named()
    texts.addValues(['COOKIESECRET12345'])
    const cut = `${'x'.repeat(200)}COOKIESEC`
    expect(texts.text(cut)).toBe(`${'x'.repeat(200)}${SCRUBBED}`)
  })

  test('scrubs observed values that contain a known secret as a whole', () => {
    const texts = new NamedTexts(createScrubber({ secrets: ['ann@example.com'] }))
    const text = 'cookie: sid=1-ann@example.com-9f8e\nnew 1-ann@example.com-9f8e, ann@example.com'
    expect(texts.text(text)).toBe(`cookie: ${SCRUBBED}\nnew ${SCRUBBED}, ${SCRUBBED}`)
    texts.addHeader('x-auth-token', 'later-ann@example.com-7c6b')
    expect(texts.value({ a: ['is later-ann@example.com-7c6b'] }, ['more-1'])).toEqual({
      a: [`is ${SCRUBBED}`],
    })
  })

  test('finds each of the cookies that thousands of answers set, and says nothing over the limit', () => {
    const texts = named()
    for (let count = 0; count < LIMITS.userCodeSecretValuesMax;) {
      const next = Math.min(count + 37, LIMITS.userCodeSecretValuesMax)
      for (; count < next; count++) {
        texts.addHeader('set-cookie', `AWSALB=Zq7Rk2Lm${count}; Path=/`)
        texts.scrubber()
      }
      const seen = [0, count >> 1, count - 1].map((at) => `Zq7Rk2Lm${at}`).join()
      expect(texts.text(seen)).toBe([SCRUBBED, SCRUBBED, SCRUBBED].join())
    }
    expect(texts.text('25 items')).toBe('25 items')
    texts.addValues(['one-more'])
    expect(texts.text('25 items')).toBe(SCRUBBED)
  })

  test('does not take what is scrubbed already for a secret', () => {
    const texts = named()
    const clean = texts.text(`  LOGIN_TOKEN: '${SCRUBBED}',\n  x: '${SCRUBBED}'`)
    expect(texts.text(clean)).toBe(clean)
  })

  test('and the texts of others are read for known secrets alone', async () => {
    const { result } = await runOf('URL', `'x-api-key': 'INLINEKEY-9999'`)
    expect(JSON.stringify(result.observed)).toContain('INLINEKEY')
  })
})
