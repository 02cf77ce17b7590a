// Aim: the text of an uncaught fault contains class, code and places, and never the message.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { faultText } from '../../../src/process/faults/fault.ts'

const SECRET = 'correct-horse-battery'
const source = (path: string) =>
  JSON.stringify(new URL(`../../../src/process/${path}`, import.meta.url).href)

const fakePlaces = `odd\n    at ${SECRET} (file:///${SECRET}:1:1)\n`
const withCode = Object.assign(new RangeError(SECRET), { code: 'ENOSPC', path: SECRET })
const PLACE = /^RangeError\n {4}at .*uncaught\.test\.ts:\d+:\d+/

test.each([
  ['an error', new RangeError(`odd: ${SECRET}`), PLACE],
  ['lines that look like places', new RangeError(fakePlaces), PLACE],
  ['a code', withCode, /^RangeError ENOSPC\n/],
  ['a cause', new RangeError('odd', { cause: new Error(SECRET) }), /^RangeError\n/],
  ['a text', SECRET, /^string\n$/],
])('what is shown of a fault: %s', (_, thrown, shown) => {
  const text = faultText(thrown)
  expect(text).toMatch(shown)
  expect(text).not.toContain(SECRET)
})

test.each([
  [
    'a log',
    `import { createLog } from ${source('log.ts')}
    import { endOnUncaught } from ${source('faults/uncaught.ts')}
    endOnUncaught(createLog({ level: 'info', pretty: false }))`,
  ],
  [
    'standard error',
    `import { printUncaught } from ${source('faults/uncaught.ts')}
    printUncaught((text) => process.stderr.write(text))`,
  ],
])('an uncaught fault and an unhandled rejection end the process, on %s', (_, handler) => {
  for (const way of ['setImmediate(() => { throw thrown })', 'void Promise.reject(thrown)']) {
    const program = `${handler}\nconst thrown = new RangeError('odd: ${SECRET}')\n${way}`
    const args = ['--input-type=module', '-e', program]
    const options = { encoding: 'utf8', cwd: import.meta.dirname } as const
    const { status, stdout, stderr } = spawnSync(process.execPath, args, options)
    expect([status, stdout + stderr]).toEqual([1, expect.stringContaining('RangeError')])
    expect(stdout + stderr).toContain('a fault of the program itself')
    expect(stdout + stderr).not.toContain(SECRET)
  }
})

test('a supervisor that cannot parse its launch request shows nothing of it', () => {
  const url = new URL('../../../src/sandbox/supervisor/supervisor.ts', import.meta.url)
  const input = `{"environment":{"TOKEN":${SECRET}}}\n`
  // Input, output and error, and those of the run.
  const stdio = Array.from({ length: 7 }, () => 'pipe' as const)
  const options = { input, stdio, encoding: 'utf8', timeout: 60_000 } as const
  const { status, stderr } = spawnSync(process.execPath, [fileURLToPath(url)], options)
  expect([status, stderr.split('\n')[0]]).toEqual([1, 'SyntaxError'])
  expect(stderr).not.toContain(SECRET)
})
