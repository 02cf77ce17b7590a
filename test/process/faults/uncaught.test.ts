// Aim: the text of an uncaught fault contains class, code and places, and never the message, which may quote a
// secret.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { faultText, shownFault } from '../../../src/process/faults/fault.ts'

const SECRET = 'correct-horse-battery'
const source = (path: string) =>
  JSON.stringify(new URL(`../../../src/process/${path}`, import.meta.url).href)

const THROWN: Readonly<Record<string, string>> = {
  'an error': `new RangeError('odd: ${SECRET}')`,
  'an error of several lines that look like places': `new RangeError('odd\\n    at ${SECRET} (/${SECRET}:1:1)\\n')`,
  'an error with a code': `Object.assign(new RangeError('${SECRET}'), { code: 'ENOSPC', path: '${SECRET}' })`,
  'an error that was caused by another': `new RangeError('odd', { cause: new Error('${SECRET}') })`,
  'a text': `'${SECRET}'`,
}

/** The shown texts, where more than the class is shown. */
const SHOWN: Readonly<Record<string, string[]>> = {
  'an error with a code': ['ENOSPC', 'RangeError'],
  'a text': [],
}

const HANDLERS = {
  'a log': `import { createLog } from ${source('log.ts')}
    import { endOnUncaught } from ${source('faults/uncaught.ts')}
    endOnUncaught(createLog({ level: 'info', pretty: false }))`,
  'standard error': `import { printUncaught } from ${source('faults/uncaught.ts')}
    printUncaught((text) => process.stderr.write(text))`,
}

test.each(
  Object.keys(THROWN).flatMap((what) => Object.keys(HANDLERS).map((where) => [what, where])),
)('%s, on %s', (what = '', where = '') => {
  for (const way of [`setImmediate(() => { throw thrown })`, `void Promise.reject(thrown)`]) {
    const program = `${HANDLERS[where as keyof typeof HANDLERS]}
        const thrown = ${THROWN[what]}
        ${way}`
    const ended = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      encoding: 'utf8',
      cwd: import.meta.dirname,
    })
    const said = ended.stdout + ended.stderr
    expect(ended.status).toBe(1)
    expect(said).not.toContain(SECRET)
    expect(said).toContain('a fault of the program itself')
    const shown = ['ENOSPC', 'RangeError'].filter((one) => said.includes(one))
    expect(shown).toEqual(SHOWN[what] ?? ['RangeError'])
  }
})

test('the places of a fault are shown', () => {
  expect(shownFault(new TypeError('x')).at[0]).toMatch(/uncaught\.test\.ts:\d+:\d+$/)
})

test('the text of a fault in the sandbox has its class and places', () => {
  const text = faultText(new RangeError(`${SECRET}\n    at ${SECRET} (file:///${SECRET}:1:1)`))
  expect(text).toMatch(/^RangeError\n {4}at .*uncaught\.test\.ts:\d+:\d+/)
  expect(text).not.toContain(SECRET)
  expect(faultText(SECRET)).toBe('string\n')
})

test('a supervisor that cannot parse its launch request shows nothing of it', () => {
  const supervisor = fileURLToPath(
    new URL('../../../src/sandbox/supervisor/supervisor.ts', import.meta.url),
  )
  const input = `{"environment":{"TOKEN":${SECRET}}}\n`
  // Input, output and error, and those of the run.
  const stdio = Array.from({ length: 7 }, () => 'pipe' as const)
  const options = { input, stdio, encoding: 'utf8', timeout: 60_000 } as const
  const { status, stderr } = spawnSync(process.execPath, [supervisor], options)
  expect([status, stderr.split('\n')[0]]).toEqual([1, 'SyntaxError'])
  expect(stderr).not.toContain(SECRET)
})
