// Aim: the help of every command fits a terminal of 100 columns.
import { expect, test } from 'vitest'
import { COMMANDS } from '../../src/cli/commands.ts'
import { runCommandLine } from '../../src/process/command-line.ts'

test.each([['--help'], ...COMMANDS.map(({ name }) => [name, '--help'])])(
  'vedette %s %s',
  async (...argv) => {
    const out: string[] = []
    const program = {
      name: 'vedette',
      version: '1.2.3',
      summary: '',
      epilogue: '',
      commands: COMMANDS,
      manual: () => Promise.reject(new Error('not needed')),
      write: (text: string) => void out.push(text),
      complain: (text: string) => void out.push(text),
    }
    expect(await runCommandLine(program, argv)).toBe(0)
    const lines = out.join('').split('\n')
    expect(lines.length).toBeGreaterThan(5)
    expect(lines.filter((line) => line.length > 100)).toEqual([])
  },
)

test('paragraphs of help are wrapped to the width, and break nowhere else', () => {
  const paragraphs = COMMANDS.flatMap(({ description }) => description.split('\n'))
  expect(paragraphs.filter((one) => !/[.:]$/.test(one))).toEqual([])
})
