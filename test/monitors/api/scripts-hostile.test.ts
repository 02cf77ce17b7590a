// Aim: whatever the scripts of an API monitor do, the check ends in time with a verdict that says what happened,
// what they hand back is held to the same rules as a definition, and nothing of them is left.
import { afterAll, describe, expect, test } from 'vitest'
import { startScriptedChecks } from '../../support/scripts/api-script-runs.ts'
import { processesWith } from '../../support/sandbox/stand-in.ts'
import { testScriptHost } from '../../support/scripts/script-host.ts'
import { startStopwatch } from '../../support/stopwatch.ts'

const { run, server, close } = await startScriptedChecks()
afterAll(close)

describe('a set-up script that', () => {
  const PRINTING = `const line = 'x'.repeat(1023) + '\\n'; for (let at = 0; at < 1e5; at++) process.stdout.write(line)`
  const TALKING = `const line = Buffer.alloc(1e6, 'x'); for (let at = 0; at < 100; at++) require('fs').writeSync(3, line)`
  const HEADERS = `for (let at = 0; at < 1000; at++) request.headers['X-' + at] = '1'`
  const THROWING = `request = new Proxy({}, { get() { throw new Error('no') } })`
  const KILLING = `process.kill(process.pid, 'SIGKILL'); await new Promise(() => {})`
  const FORGETTING = `Promise.reject(new Error('forgotten')); await new Promise((done) => setTimeout(done, 200))`
  const NONSENSE = `require('fs').writeSync(3, 'no json\\n[]\\n7\\n{"step":"nothing"}\\n{"step":"set-up","request":{"url":7}}\\n')`
  test.each<[does: string, script: string, code?: string]>([
    ['prints 100 MB', PRINTING, 'RUN_OUT_OF_OUTPUT'],
    ['says more on the channel of messages than there is room for', TALKING, 'RUN_OUT_OF_OUTPUT'],
    ['asks a blocked address', `request.url = 'http://169.254.169.254/'`, 'ADDRESS_BLOCKED'],
    ['puts a line end into a header', `request.headers.X = 'a\\r\\nInjected: 1'`],
    ['makes a thousand headers', HEADERS],
    ['hands back a proxy that throws', THROWING],
    ['deletes the request', `'use strict'; delete globalThis.request`],
    ['exits later', `setTimeout(() => process.exit(7), 50); await new Promise(() => {})`],
    ['kills itself', KILLING, 'RUN_CRASHED'],
    ['leaves a promise unhandled', FORGETTING],
    ['closes the channel of messages', `require('fs').closeSync(3)`],
    ['answers in our place with nonsense', NONSENSE],
    ['makes all JSON something else', `Object.prototype.toJSON = () => ({ step: 'set-up' })`],
  ])('%s', async (_does, script, code = 'SCRIPT_FAILED') => {
    const { received, left, sent: _, ...result } = await run(script)
    const verdict = code === 'SCRIPT_FAILED' ? 'failed' : 'errored'
    expect([result.verdict, result.codes.join()]).toEqual([verdict, code])
    expect([received, left]).toEqual([[], []])
    expect(JSON.stringify(result).length).toBeLessThan(300_000)
  })

  test('is killed before it says what it made secret shows nothing of its output', async () => {
    const { scripted } = await run(
      `request.headers.Authorization = 'Bearer made-7Qx9'; console.log('it is made-7Qx9')
        await new Promise((resolve) => setTimeout(resolve, 50)); ${KILLING}`,
    )
    expect(scripted.scripts).toMatchObject({ console: [], consoleLeftOut: 1 })
  })

  test('takes all memory', async () => {
    const host = testScriptHost({ memoryBytes: 2 ** 28 })
    const hungry = `const all = []; for (;;) all.push(Buffer.alloc(2 ** 24, 1))`
    const { verdict, codes, received, left } = await run(hungry, '', { host })
    host.close()
    expect([verdict, codes]).toEqual(['errored', ['RUN_OUT_OF_MEMORY']])
    expect([received, left]).toEqual([[], []])
  })

  test('reads the agent’s environment and files finds nothing of it', async () => {
    process.env['PLANTED_FOR_SCRIPTS'] = 'planted-in-agent'
    const { scripted } = await run(
      `const fs = require('fs')
        for (const path of ['/proc/${process.pid}/environ', '/proc/self/environ', '${import.meta.filename}']) {
          try { console.log(fs.readFileSync(path, 'utf8')) } catch (error) { console.log(error.code) }
        }`,
    )
    expect(JSON.stringify(scripted.scripts?.console)).not.toContain('planted-in-agent')
    delete process.env['PLANTED_FOR_SCRIPTS']
  })

  test('reaches for blocked networks itself is refused, and the result names the address', async () => {
    const blocked = ['127.0.0.3/32']
    const host = testScriptHost({ blocked })
    const { scripted, codes } = await run(
      `const tries = [fetch('http://127.0.0.3:${server.port}/'), new Promise((_, no) =>
          require('net').connect(${server.port}, '127.0.0.3').on('error', no))]
        console.log((await Promise.allSettled(tries)).map((one) => one.status).join())`,
      '',
      { blocked, host },
    )
    host.close()
    expect(codes).toEqual([])
    expect(scripted.scripts?.console[0]?.text).toBe('rejected,rejected')
    const { port } = server
    const refused = { host: '127.0.0.3', port, code: 'ADDRESS_BLOCKED', network: '127.0.0.3/32' }
    expect(scripted.scripts?.refused).toEqual([refused, refused])
  })

  test('leaves timers and processes behind: the check ends, and they with it', async () => {
    const mark = `left-behind-${process.pid}`
    const { verdict, durationMs, left } = await run(
      `setInterval(() => {}, 10)
        require('child_process').spawn('/bin/sh', ['-c', 'sleep 300 # ${mark}'], { detached: true, stdio: 'ignore' })`,
    )
    expect(verdict).toBe('passed')
    expect(durationMs).toBeLessThan(20_000)
    expect(left).toEqual([])
    expect(processesWith(mark)).toEqual([])
  })

  test('ends its process while the request is under way makes the tear-down fail, not the request', async () => {
    const { verdict, received, failures } = await run(
      `setTimeout(() => { throw new Error('late') }, 50)`,
      `await 1`,
      { request: { url: `${server.url}/slow` } },
    )
    expect(received).toHaveLength(1)
    expect(['failed', 'passed']).toContain(verdict)
    expect(failures.every(({ code }) => code === 'SCRIPT_FAILED')).toBe(true)
  })
})

test.each<[does: string, script: string, verdict?: string, code?: string]>([
  ['exits', `process.exit(0)`],
  ['deletes the answer', `response = null`],
  ['makes a status of it that is none', `response.statusCode = 'x'`],
  ['changes the request, which is gone', `request.url = 'http://169.254.169.254/'`, 'passed', ''],
])('a tear-down script that %s', async (_, script, verdict = 'failed', code = 'SCRIPT_FAILED') => {
  const { received, left, ...result } = await run('', script)
  expect([result.verdict, result.codes.join()]).toEqual([verdict, code])
  expect(received).toHaveLength(1)
  expect(left).toEqual([])
})

const endless = `await fetch('{server}/begun'); await new Promise(() => setInterval(() => {}, 1e6))`
test.each([
  ['set-up', endless, ''],
  ['tear-down', '', endless],
])(
  'a run that is cancelled within its %s script ends at once, with nothing left of it',
  async (_, setUp, tearDown) => {
    const stop = new AbortController()
    const running = run(setUp, tearDown, { signal: stop.signal })
    await expect.poll(() => server.received.at(-1)?.url, { timeout: 10_000 }).toBe('/begun')
    const elapsed = startStopwatch()
    stop.abort()
    const { verdict, codes, left } = await running
    expect(elapsed()).toBeLessThan(5000)
    expect([verdict, codes]).toEqual(['cancelled', ['CANCELLED']])
    expect(left).toEqual([])
    server.received.length = 0
  },
)
