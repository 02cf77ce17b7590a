// Aim: errors of set-up and tear-down scripts of API monitors get the right verdict and code, and secrets that
// they know, fetch or make stay in.
import { afterAll, describe, expect, test } from 'vitest'
import {
  type CheckOptions,
  startScriptedChecks,
  variable,
} from '../../support/scripts/api-script-runs.ts'
import { runtimeFolder, testScriptHost } from '../../support/scripts/script-host.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { startHttpServer } from '../../support/test-server.ts'

const { run, close } = await startScriptedChecks()
afterAll(close)

describe('verdicts', () => {
  test.each<[string, string, string, string, string[], number]>([
    ['set-up throws', `throw new Error('no user')`, '', 'failed', ['SCRIPT_FAILED'], 0],
    ['set-up throws no error', `throw undefined`, '', 'failed', ['SCRIPT_FAILED'], 0],
    ['set-up does not parse', `const = 1`, '', 'errored', ['SCRIPT_INVALID'], 0],
    ['set-up with a missing import', `require('nowhere')`, '', 'errored', ['SCRIPT_INVALID'], 0],
    ['set-up reads bad JSON', `JSON.parse('{')`, '', 'failed', ['SCRIPT_FAILED'], 0],
    ['tear-down throws', '', `throw new Error('left over')`, 'failed', ['SCRIPT_FAILED'], 1],
    ['tear-down does not parse', '', `const = 1`, 'errored', ['SCRIPT_INVALID'], 1],
  ])('%s', async (_, setUp, tearDown, verdict, codes, requests) => {
    const result = await run(setUp, tearDown)
    expect([result.verdict, result.codes]).toEqual([verdict, codes])
    expect(result.received).toHaveLength(requests)
    expect(result.left).toEqual([])
  })

  test('an error shows its place in the script, in any language', async () => {
    const plain = await run(`\nthrow new Error('here')`)
    expect(plain.failures[0]?.details).toMatchObject({ file: 'set-up.ts', line: 2, column: 7 })
    const typed = await run(`const a: string = ''\n\nthrow new Error(a + 'here')`, '', {
      more: { setupScriptPath: 'scripts/own.ts' },
    })
    expect(typed.failures[0]).toMatchObject({ details: { file: 'scripts/own.ts', line: 3 } })
    expect(typed.failures[0]?.message).toContain('here')
  })

  test('assertions are evaluated although the tear-down script fails', async () => {
    const assertions = [{ source: 'STATUS_CODE', comparison: 'EQUALS', target: '201' }]
    const { codes } = await run('', `throw new Error('x')`, { request: { assertions } })
    expect(new Set(codes)).toEqual(new Set(['ASSERTION_FAILED', 'SCRIPT_FAILED']))
  })

  test('retries repeat scripts and request together', async () => {
    const { attempts, received, verdict } = await run(
      `request.headers['X-Try'] = 'set up'`,
      `throw new Error('again')`,
      { more: { retryStrategy: { type: 'FIXED', baseBackoffSeconds: 0, maxRetries: 1 } } },
    )
    expect([verdict, attempts.length, received.length]).toEqual(['failed', 2, 2])
    expect(received.every(({ headers }) => headers['x-try'] === 'set up')).toBe(true)
  })

  test.each<[string, CheckOptions, string]>([
    ['an agent that runs no code', { host: undefined }, 'SCRIPT_UNSUPPORTED'],
    ['a runtime that is not installed', { more: { runtimeId: '2025.04' } }, 'RUNTIME_MISSING'],
    ['no runtime', { host: testScriptHost({ tools: temporaryFolder() }) }, 'RUNTIME_MISSING'],
  ])('nothing is sent by %s', async (_, options, code) => {
    const { verdict, codes, received } = await run('', '1', options)
    expect([verdict, codes, received]).toEqual(['errored', [code], []])
  })

  test('the runtime that a monitor names is the one that runs', async () => {
    const other = testScriptHost({ tools: runtimeFolder('2025.04') })
    const { scripted } = await run('1', '', { host: other, more: { runtimeId: '2025.04' } })
    expect(scripted.scripts?.runtime).toBe('2025.04')
    other.close()
  })
})

test('secrets stay in: known ones, what a script puts into headers, and new values of secret variables', async () => {
  const result = await run(
    `const fetched = 'fetched-' + 'token-42'
      request.headers.Authorization = 'Bearer ' + fetched
      process.env.PIN = 'changed-' + 'pin-42'
      process.env.NEW_PASSWORD = 'made-' + 'password-42'
      console.log(fetched, process.env.PIN, process.env.NEW_PASSWORD, process.env.KEY)
      console.log(Buffer.from(process.env.KEY).toString('base64'))`,
    `throw new Error('with ' + process.env.KEY + ' and ' + process.env.PIN)`,
    { variables: [variable('KEY', 'planted-key-42', true), variable('PIN', 'old-pin', true)] },
  )
  expect(result.sent.headers.authorization).toBe('Bearer fetched-token-42')
  const json = JSON.stringify(result, (key, value: unknown) =>
    key === 'received' || key === 'sent' ? undefined : value,
  )
  for (const secret of ['planted-key-42', 'fetched-token-42', 'changed-pin-42', 'password-42']) {
    expect(json).not.toContain(secret)
    expect(json).not.toContain(Buffer.from(secret).toString('base64'))
  }
  expect(result.lines?.[0]).toBe('[scrubbed] [scrubbed] [scrubbed] [scrubbed]')
})

test('cookies of a redirect stay in where the next answer repeats them', async () => {
  await using target = await startHttpServer(({ url, headers }, response) => {
    const more = { location: '/', 'set-cookie': ['sid=of-a-redirect-42; Path=/'] }
    if (url === '/login') response.writeHead(302, more).end()
    else response.writeHead(500).end(`logged in as ${headers.cookie}`)
  })
  const url = `http://${target.authority}/login`
  const result = await run('request.headers.X = "1"', '', { request: { url } })
  expect(result.scripted.response?.body).toBe('logged in as sid=[scrubbed]')
  expect(JSON.stringify(result)).not.toContain('of-a-redirect')
})
