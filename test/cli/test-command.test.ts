// Wrong variables of `vedette test` are refused in a sentence, before anything runs.
import { expect, test } from 'vitest'
import { isSecretVariable } from '../../src/cli/settings.ts'
import { startVedette } from '../support/platform/platform-process.ts'
import { temporaryFile, temporaryFolder } from '../support/temporary-folder.ts'

const MANY = Array.from({ length: 201 }, (_, index) => `V${index}=x\n`).join('')

test.each([
  ['a bad name', 'GOOD=1\nBAD-NAME=2\n', /\.env:2: the variable there: letters, digits and _ /],
  ['too many', MANY, /: environmentVariables: must have at most 200 /],
])('%s', async (_, text, expected) => {
  const args = ['test', temporaryFolder(), '--env-file', temporaryFile('.env', text)]
  const { code, stdout, stderr } = await startVedette(args, {}).ended
  expect([code, stdout, stderr.split('\n').length]).toEqual([2, '', 2])
  expect(stderr).toMatch(expected)
})

test.each([
  ['NODE_ENV', 'test', false],
  ['PORT', '3000', false],
  ['DB_PASS', 'swordfish', true],
  ['API_TOKEN', 'word', true],
  ['PIN', '1234', true],
  ['BASE_URL', 'http://localhost:3000', false],
  ['URL', 'https://shop.test/cart', false],
  ['URL', 'https://ann:Zq7@shop.test/', true],
  ['URL', 'https://hooks.test/T0AB12/Zq7Rk2Lm', true],
])('%s=%s of a file is a secret: %s', (name, value, expected) => {
  expect(isSecretVariable(name, value)).toBe(expected)
})
