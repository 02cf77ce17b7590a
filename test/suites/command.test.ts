// Aim: a command that is Playwright's alone starts without a shell, with the arguments that a shell would make of it.
import { expect, test } from 'vitest'
import { argumentsOf, suiteCommand } from '../../src/suites/command.ts'

const started = (command: string) =>
  suiteCommand(command, { name: 'node@24', program: '/node', folder: '/', missing: [] }, '/cli.js')

test.each<[string, string[]]>([
  ['npx playwright test', []],
  [`npx playwright test --grep "@smoke" -c 'a b.ts'`, ['--grep', '@smoke', '-c', 'a b.ts']],
  ['playwright test a.spec.ts', ['a.spec.ts']],
])('%s is started on the engine itself', (command, expected) => {
  const args = ['/cli.js', 'test', ...expected]
  expect(started(command)).toMatchObject({ command: '/node', args, ask: { to: 'leader' } })
})

test.each([
  'npx playwright test | tee log',
  'npx playwright test $X',
  'npx playwright tests',
  'npm run e2e',
])('%s needs a shell, which all are asked to end with', (command) => {
  expect(started(command)).toMatchObject({ command: '/bin/sh', ask: { to: 'group' } })
})

test('a command line that needs a shell has no arguments', () => {
  expect(argumentsOf('a "b c"d')).toEqual(['a', 'b cd'])
  expect(argumentsOf('a `b`')).toBeUndefined()
  expect(argumentsOf('"open')).toBeUndefined()
})
