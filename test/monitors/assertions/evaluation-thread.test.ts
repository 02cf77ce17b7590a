// Aim: a thread that does not get ready in time is distinguished from an assertion that takes too long.
import { describe, expect, test } from 'vitest'
import { EvaluationThread } from '../../../src/monitors/assertions/evaluation-thread.ts'

const signal = new AbortController().signal
const material = { kind: 'text', text: `${'a'.repeat(40)}b` } as const
const assertion = { source: 'TEXT_BODY', comparison: 'EQUALS', target: 'x', regex: null } as const

async function codeOf(thread: EvaluationThread, property: string): Promise<string> {
  const outcome = await thread.evaluate({ ...assertion, property }, material, signal)
  return 'failure' in outcome ? outcome.failure.code : 'evaluated'
}

describe('what runs out of time', () => {
  test('before the thread is ready is no assertion that is too slow', async () => {
    expect(await codeOf(new EvaluationThread(1), 'a')).toBe('RESOURCES_EXHAUSTED')
  })

  test('in the thread is one', async () => {
    expect(await codeOf(new EvaluationThread(), '(a+)+$')).toBe('ASSERTION_REGEX_TIMEOUT')
  })
})
