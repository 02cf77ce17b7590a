// Aim: the text of an uncaught fault contains class, code and places, and never the message, which may quote a
// secret.
import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { shownFault } from '../../../src/process/faults/uncaught.ts'

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
