// The delay of the event loop, as those who share its meter see it: each of its own time alone.
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { LoopDelay } from '../../../src/agent/run/loop-delay.ts'

function block(ms: number): void {
  const untilMs = performance.now() + ms
  while (performance.now() < untilMs);
}

test('is measured while it lasts, and after the loop has turned', async () => {
  const loop = new LoopDelay()
  const watch = loop.watch()
  block(100)
  expect(watch.delayMs()).toBeGreaterThanOrEqual(80)
  await sleep(30)
  expect(watch.delayMs()).toBeGreaterThanOrEqual(80)
  watch.end()
})

test('adds up over several turns', async () => {
  const loop = new LoopDelay()
  const watch = loop.watch()
  for (let turn = 0; turn < 5; turn++) {
    block(60)
    await sleep(1)
  }
  expect(watch.delayMs()).toBeGreaterThanOrEqual(200)
  watch.end()
})

test('of many short turns is no more than what few waits can meet', async () => {
  const loop = new LoopDelay()
  const watch = loop.watch()
  const startedAt = performance.now()
  for (let turn = 0; turn < 20; turn++) {
    block(30)
    await sleep(1)
  }
  // On a busy machine the turns last longer, and their share stays.
  expect(watch.delayMs()).toBeLessThan((performance.now() - startedAt) * 0.85)
  watch.end()
})

test('before the watch began is not counted, and after it ended costs nothing', async () => {
  const loop = new LoopDelay()
  const first = loop.watch()
  block(300)
  const second = loop.watch()
  expect(first.delayMs() - second.delayMs()).toBeGreaterThanOrEqual(280)
  first.end()
  second.end()
  await sleep(50)
  block(300)
  const third = loop.watch()
  expect(third.delayMs()).toBeLessThan(300)
  third.end()
})
