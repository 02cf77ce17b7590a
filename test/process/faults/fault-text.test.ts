// Aim: the text of a fault in our own process leads to its place and quotes nothing.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { faultText } from '../../../src/process/faults/fault-text.ts'

test('a fault is shown by its class and places', () => {
  const text = faultText(new RangeError('hunter22\n    at hunter22 (file:///hunter22:1:1)'))
  expect(text).toMatch(/^RangeError\n {4}at .*fault-text\.test\.ts:\d+:\d+/)
  expect(text).not.toContain('hunter22')
  expect(faultText('hunter22')).toBe('string\n')
})

test('a supervisor that cannot parse its launch request shows nothing of it', () => {
  const supervisor = fileURLToPath(
    new URL('../../../src/sandbox/supervisor/supervisor.ts', import.meta.url),
  )
  const input = '{"environment":{"TOKEN":hunter22}}\n'
  // Input, output and error, and those of the run.
  const stdio = Array.from({ length: 7 }, () => 'pipe' as const)
  const options = { input, stdio, encoding: 'utf8', timeout: 60_000 } as const
  const { status, stderr } = spawnSync(process.execPath, [supervisor], options)
  expect([status, stderr.split('\n')[0]]).toEqual([1, 'SyntaxError'])
  expect(stderr).not.toContain('hunter22')
})
