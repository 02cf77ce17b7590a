// How many jobs begin in one turn of the event loop: no more than the pace allows, in their order, none left
// behind.
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { createStartPace, type StartPace } from '../../../src/agent/schedule/start-pace.ts'

/** Asks for so many turns, and notes those that have come. */
function ask(pace: StartPace, count: number, begun: number[] = []): number[] {
  const first = begun.length
  for (let n = 0; n < count; n++) {
    const turn = pace.turn()
    if (turn === undefined) begun.push(first + n)
    else void turn.then(() => begun.push(first + n))
  }
  return begun
}

describe('a pace', () => {
  test('lets so many begin at once, and as many in each turn after that', async () => {
    const pace = createStartPace(4)
    const begun = ask(pace, 11)
    const counts = [begun.length]
    for (let turn = 0; turn < 4; turn++) {
      await nextTurn()
      await Promise.resolve()
      counts.push(begun.length)
    }
    expect(counts.toSorted((a, b) => a - b)).toEqual(counts)
    for (const [turn, count] of counts.entries()) {
      expect(count - (counts[turn - 1] ?? 0)).toBeLessThanOrEqual(4)
    }
    expect(begun).toEqual(Array.from({ length: 11 }, (_, n) => n))
  })

  test('lets nobody in before those who wait', async () => {
    const pace = createStartPace(2)
    const begun: string[] = []
    const asking = (name: string) => {
      const turn = pace.turn()
      if (turn === undefined) begun.push(name)
      return turn?.then(() => begun.push(name))
    }
    const waiting = ['a', 'b', 'c', 'd', 'e'].map(asking)
    await waiting[2]
    await asking('f')
    expect(begun).toEqual(['a', 'b', 'c', 'd', 'e', 'f'])
  })

  test('starts anew when it was idle', async () => {
    const pace = createStartPace(3)
    for (let round = 0; round < 3; round++) {
      expect(ask(pace, 3)).toHaveLength(3)
      await nextTurn()
      await nextTurn()
    }
  })
})
