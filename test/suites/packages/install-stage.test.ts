// Aim: what an installation was at when it was ended is read out of npm's log, else out of what was written.
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { installWasAt, LastLine } from '../../../src/suites/packages/install-stage.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const FETCHED = '7 http fetch GET 200 http://registry.test/slow/-/slow-1.0.0.tgz 12ms (cache miss)'
const BEGUN = '9 info run slow@1.0.0 postinstall node_modules/slow node wait.js'
const ENDED = '10 info run slow@1.0.0 postinstall { code: 0, signal: null }'

describe('npm', () => {
  test.each([
    ['fetches', [FETCHED], 'it was fetching: http://registry.test/slow/-/slow-1.0.0.tgz'],
    ['runs a script', [FETCHED, BEGUN], 'it was running postinstall of slow@1.0.0 (node wait.js)'],
    ['has run one', [BEGUN, ENDED, FETCHED], expect.stringContaining('it was fetching')],
    ['has noted nothing', ['0 verbose cli npm'], 'it was at: added 1 package'],
  ])('%s', async (_, lines, stage) => {
    const home = temporaryFolder()
    mkdirSync(join(home, '.npm/_logs'), { recursive: true })
    writeFileSync(join(home, '.npm/_logs/1-debug-0.log'), lines.join('\n'))
    expect(await installWasAt(home, 'added 1 package')).toEqual(stage)
  })

  test('has no log of another’s', async () => {
    const [home, other] = [temporaryFolder(), temporaryFolder()]
    mkdirSync(join(home, '.npm/_logs'), { recursive: true })
    writeFileSync(join(other, 'log'), BEGUN)
    symlinkSync(join(other, 'log'), join(home, '.npm/_logs/1-debug-0.log'))
    expect(await installWasAt(home, '')).toBe('nothing was written until then')
  })
})

test('the last line is the last one with text', () => {
  const last = new LastLine()
  for (const one of ['one\n', '\u001B[1mtwo\u001B[0m\n', ' ---\n']) last.add(Buffer.from(one))
  expect(last.text).toBe('two')
})
