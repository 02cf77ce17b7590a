// Aim: the bodies of all runs together stay within their memory, what does not fit is no fault of the
// target, and however a run ends it gives back what it took.
import { afterEach, describe, expect, test } from 'vitest'
import { LIMITS } from '../../../src/contract/versions.ts'
import { api } from '../../../src/monitors/api/index.ts'
import { bodyBudget } from '../../../src/network/http/body-budget.ts'
import { DeadlineReached } from '../../../src/network/deadline.ts'
import { testContext } from '../../support/monitors/monitor-context.ts'
import { startHttpServer } from '../../support/test-server.ts'

const BYTES = 100_000

async function check(address: string, signal = new AbortController().signal) {
  const assertion = { source: 'TEXT_BODY', comparison: 'CONTAINS', target: 'xx' }
  const monitor = api.schema.parse({
    id: 'm',
    name: 'm',
    checkType: 'API',
    request: { method: 'GET', url: address, assertions: [assertion] },
  })
  const { failures } = await api.prepare(monitor)(testContext({ signal }))
  return failures.map(({ code }) => code)
}

const startTarget = () => startHttpServer((_, response) => response.end('x'.repeat(BYTES)))

/** A target that sends a beginning and no end. */
const startEndless = () => startHttpServer((_, response) => response.write('x'.repeat(BYTES)))

/** Resolves when something of a body is kept. */
async function untilKept(): Promise<void> {
  while (bodyBudget.takenBytes === 0) await new Promise((resolve) => setImmediate(resolve))
}

afterEach(() => {
  if (bodyBudget.takenBytes !== 0) throw new Error(`${bodyBudget.takenBytes} bytes not given back`)
})

describe('a body', () => {
  test('that fits is read and given back', async () => {
    await using server = await startTarget()
    expect(await check(`http://${server.authority}/`)).toEqual([])
  })

  test('for which there is no room is a fault of ours', async () => {
    await using server = await startTarget()
    const others = LIMITS.bodiesBytesMax - BYTES + 1
    expect(bodyBudget.take(others)).toBe(true)
    expect(await check(`http://${server.authority}/`)).toEqual(['RESOURCES_EXHAUSTED'])
    expect(bodyBudget.takenBytes).toBe(others)
    bodyBudget.giveBack(others)
  })

  test('whose check runs out of time is given back', async () => {
    await using server = await startEndless()
    const run = new AbortController()
    const seen = check(`http://${server.authority}/`, run.signal)
    await untilKept()
    run.abort(new DeadlineReached(1))
    expect(await seen).toEqual(['TIMEOUT_DOWNLOAD'])
  })

  test('whose check is cancelled is given back', async () => {
    await using server = await startEndless()
    const run = new AbortController()
    const seen = check(`http://${server.authority}/`, run.signal)
    await untilKept()
    run.abort(new Error('stopped'))
    await expect(seen).rejects.toThrow('stopped')
  })
})
