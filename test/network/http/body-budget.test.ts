// Aim: the bodies of all runs stay within the memory budget, exceeding it is no failure of the target, and every end
// of a run releases its bytes.
import { afterEach, describe, expect, test } from 'vitest'
import { LIMITS } from '../../../src/contract/versions.ts'
import { api } from '../../../src/monitors/api/index.ts'
import { bodyBudget } from '../../../src/network/http/body-budget.ts'
import { DeadlineReached } from '../../../src/network/deadline.ts'
import { checkMonitor, codesOf } from '../../support/monitors/check-monitor.ts'
import { startHttpServer } from '../../support/test-server.ts'

const BYTES = 100_000

function check(address: string, signal = new AbortController().signal) {
  const assertion = { source: 'TEXT_BODY', comparison: 'CONTAINS', target: 'xx' }
  const request = { method: 'GET', url: address, assertions: [assertion] }
  return codesOf(checkMonitor(api, request, {}, { signal }))
}

const startTarget = () => startHttpServer((_, response) => response.end('x'.repeat(BYTES)))

/** A target that sends a beginning and no end. */
const startEndless = () => startHttpServer((_, response) => response.write('x'.repeat(BYTES)))

/** Resolves when some bytes are buffered. */
async function untilKept(): Promise<void> {
  while (bodyBudget.usedBytes === 0) await new Promise((resolve) => setImmediate(resolve))
}

afterEach(() => {
  if (bodyBudget.usedBytes !== 0) throw new Error(`${bodyBudget.usedBytes} bytes not given back`)
})

describe('a body', () => {
  test('that fits is read and released', async () => {
    await using server = await startTarget()
    expect(await check(`http://${server.authority}/`)).toEqual([])
  })

  test('that exceeds the budget is a fault of our own', async () => {
    await using server = await startTarget()
    const others = LIMITS.bodiesBytesMax - BYTES + 1
    expect(bodyBudget.reserve(others)).toBe(true)
    expect(await check(`http://${server.authority}/`)).toEqual(['RESOURCES_EXHAUSTED'])
    expect(bodyBudget.usedBytes).toBe(others)
    bodyBudget.release(others)
  })

  test('whose check reaches its deadline is released', async () => {
    await using server = await startEndless()
    const run = new AbortController()
    const checked = check(`http://${server.authority}/`, run.signal)
    await untilKept()
    run.abort(new DeadlineReached(1))
    expect(await checked).toEqual(['TIMEOUT_DOWNLOAD'])
  })

  test('whose check is cancelled is released', async () => {
    await using server = await startEndless()
    const run = new AbortController()
    const checked = check(`http://${server.authority}/`, run.signal)
    await untilKept()
    run.abort(new Error('stopped'))
    await expect(checked).rejects.toThrow('stopped')
  })
})
