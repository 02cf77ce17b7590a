// Aim: hundreds of assertions, each of them cheap enough for the event loop, do not hold it up together.
import { expect, test } from 'vitest'
import type { Assertion } from '../../../src/contract/assertion.ts'
import { LIMITS } from '../../../src/contract/versions.ts'
import { evaluateAssertions } from '../../../src/monitors/assertions/assertions.ts'

const json = JSON.stringify(Array.from({ length: 18_000 }, (_, at) => ({ at })))
const sources = { JSON_BODY: { kind: 'json', text: () => json } } as const
const many = Array.from({ length: LIMITS.assertionsMax }, (_, at): Assertion => ({
  source: 'JSON_BODY',
  property: '$',
  comparison: 'IS_EMPTY',
  target: '',
  regex: `none${at}`,
}))

test('others have their turn in between', async () => {
  let turns = 0
  const ticking = setInterval(() => turns++, 1)
  const failures = await evaluateAssertions(many, sources, new AbortController().signal)
  clearInterval(ticking)
  expect(failures).toEqual([])
  expect(turns).toBeGreaterThan(5)
})

test('a run that is cancelled in between does not pass', async () => {
  const controller = new AbortController()
  setImmediate(() => controller.abort(new Error('enough')))
  const failures = await evaluateAssertions(many, sources, controller.signal)
  expect(failures.map(({ code }) => code)).toEqual(['CANCELLED'])
})
