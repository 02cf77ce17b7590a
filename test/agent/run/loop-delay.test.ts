// The delay of the event loop, as those who share its meter see it: each of its own time alone.
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { LoopDelay } from '../../../src/agent/run/loop-delay.ts'

function block(ms: number): void {
  const untilMs = performance.now() + ms
  while (performance.now() < untilMs);
}

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
  let longestMs = 0
  for (let turn = 0; turn < 20; turn++) {
    const beganMs = performance.now()
    block(30)
    await sleep(1)
    longestMs = Math.max(longestMs, performance.now() - beganMs)
  }
  // Five waits, each of which met the longest turn at most, which two looks of 10 ms can show as longer.
  expect(watch.delayMs()).toBeLessThan(5 * (longestMs + 20))
  watch.end()
})
