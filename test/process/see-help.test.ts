// Under an error stand the pages that help, each once, and not too many.
import { expect, test } from 'vitest'
import { seeHelp } from '../../src/process/see-help.ts'

test('each topic is named once, at most three of them', () => {
  expect(seeHelp([])).toBe('')
  const lines = ['tcp', 'dns', 'url'].map((topic) => `See: vedette help ${topic}\n`)
  expect(seeHelp(['tcp', 'dns', 'tcp', 'url', 'api'])).toBe(lines.join(''))
})
