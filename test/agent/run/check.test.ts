// A round of `vedette check`: few attempts begin at a time, however many may wait for their targets.
import { expect, test } from 'vitest'
import { runOnce } from '../../../src/agent/run/check.ts'
import type { Result } from '../../../src/contract/result.ts'
import { aMonitor } from '../../support/agent/fake-monitors.ts'

test('two attempts begin at a time, and retry waits keep no place', async () => {
  let running = 0
  let most = 0
  let waiting = 0
  let mostWaiting = 0
  const all = Promise.withResolvers<void>()
  const monitors = Array.from({ length: 20 }, (_, n) => aMonitor(`m${n}`))
  const results = await runOnce({
    monitors,
    concurrency: { uptime: 3, scripted: 1 },
    signal: new AbortController().signal,
    async run({ monitor }, _signal, turn) {
      await turn(async () => {
        most = Math.max(most, ++running)
        // Of turns of microtasks, in which no timer ends its beginning.
        for (let turns = 0; turns < 20; turns++) await Promise.resolve()
        running--
        return undefined
      })
      mostWaiting = Math.max(mostWaiting, ++waiting)
      if (waiting === monitors.length) all.resolve()
      await all.promise
      return { monitorId: monitor.id } as Result
    },
  })
  expect(results.map((one) => one.monitorId)).toEqual(monitors.map(({ id }) => id))
  expect([most, mostWaiting]).toEqual([2, 20])
})
