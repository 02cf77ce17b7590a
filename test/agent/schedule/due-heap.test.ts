// The heap must always have the earliest on top, whatever is moved or removed.
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { DueHeap, type Due } from '../../../src/agent/schedule/due-heap.ts'

const step = fc.record({
  action: fc.constantFrom('add', 'move', 'remove', 'pop'),
  dueAt: fc.integer({ min: 0, max: 100 }),
  which: fc.nat(),
})

test('agrees with a sorted list after any steps', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const heap = new DueHeap<Due>()
      let items: Due[] = []
      const removed: Due[] = []
      for (const { action, dueAt, which } of steps) {
        const chosen = items[which % Math.max(1, items.length)]
        if (action === 'add') {
          const item = { dueAt, place: -1 }
          items.push(item)
          heap.add(item)
        } else if (chosen !== undefined && action === 'move') {
          chosen.dueAt = dueAt
          heap.moved(chosen)
        } else if (chosen !== undefined) {
          const gone = action === 'pop' ? (heap.peek() as Due) : chosen
          heap.remove(gone)
          items = items.filter((one) => one !== gone)
          removed.push(gone)
        }
        const earliest = Math.min(...items.map((one) => one.dueAt))
        expect(removed.every(({ place }) => place === -1)).toBe(true)
        expect(heap.size).toBe(items.length)
        expect(heap.peek()?.dueAt ?? Infinity).toBe(earliest)
      }
    }),
  )
})
