// Aim: the first line of a suite on a terminal counts its tests and workers as people do.
import { expect, test } from 'vitest'
import { SuiteLive } from '../../../src/agent/run/suite-live.ts'

test.each([
  [1, 1, '1 test with 1 worker\n'],
  [2, 4, '2 tests with 4 workers\n'],
  [0, undefined, '0 tests with 1 worker\n'],
])('%s tests on %s workers', (tests, workers, line) => {
  let said = ''
  const live = new SuiteLive((text) => (said += text), false)
  live.event({ event: 'begin', tests, workers })
  expect(said).toBe(line)
})
