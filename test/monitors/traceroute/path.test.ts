// Aim: the hash of a path is the same everywhere and for ever, and a path counts as changed exactly when
// something that answered before answers elsewhere or otherwise.
import { describe, expect, test } from 'vitest'
import { createAnswerBudget } from '../../../src/monitors/traceroute/answer-budget.ts'
import {
  createPathMemory,
  loopsOf,
  pathHash,
  shownPath,
} from '../../../src/monitors/traceroute/path.ts'

/** `a * b`, as a path. */
const path = (text: string) =>
  text.split(' ').map((hop) => (hop === '*' || hop === '' ? undefined : hop))

describe('the hash', () => {
  // Dashboards keep these numbers: they never change. FNV-1a, 32 bits, of what is shown.
  test.each([
    ['', 0x811c9dc5],
    ['a', 0xe40c292c],
    ['10.77.1.2 10.77.2.2 10.77.3.2 10.77.4.2', 0xd225e147],
    ['10.77.1.2 * 10.77.3.2 10.77.4.2', 0x8fd72916],
  ])('of "%s"', (text, hash) => {
    expect(pathHash(path(text))).toBe(hash)
  })

  test('unresponsive hops at the end are no part of the path', () => {
    expect(pathHash(path('a b * *'))).toBe(pathHash(path('a b')))
    expect(shownPath(path('a * b * *'))).toEqual(['a', '*', 'b'])
    expect(shownPath(path('* *'))).toEqual([])
  })
})

describe('changes', () => {
  const REACHED = true
  test.each([
    ['the same', 'a b t', REACHED, 'a b t', REACHED, false],
    ['another router', 'a b t', REACHED, 'a c t', REACHED, true],
    ['a router more', 'a b t', REACHED, 'a b c t', REACHED, true],
    ['a router less', 'a b t', REACHED, 'a t', REACHED, true],
    ['a router that fell silent', 'a b t', REACHED, 'a * t', REACHED, false],
    ['a router that speaks again', 'a * t', REACHED, 'a b t', REACHED, false],
    ['a target that fell silent', 'a b t', REACHED, 'a b * *', false, false],
    ['a target that speaks again', 'a b', false, 'a b t', REACHED, false],
    ['another way to a target that is not reached', 'a b', false, 'a c', false, true],
    ['a target whose own place was silent', 'a b t', REACHED, 'a b * * t', REACHED, false],
    ['a target that turns out to be nearer', 'a * * t', REACHED, 'a b t', REACHED, false],
    ['two distances in doubt', 'a * t', REACHED, 'a * * t', REACHED, false],
  ])('%s', (_, before, wasReached, now, reached, changed) => {
    const memory = createPathMemory()
    expect(memory.compare('m', { path: path(before), reached: wasReached })).toBeUndefined()
    const change = memory.compare('m', { path: path(now), reached })
    expect(change?.pathChanged).toBe(changed)
    expect(change?.previousPath).toEqual(changed ? before.split(' ') : undefined)
  })

  test('what was silent between is compared with what was there before it', () => {
    const memory = createPathMemory()
    memory.compare('m', { path: path('a b t'), reached: true })
    expect(memory.compare('m', { path: path('a * t'), reached: true })?.pathChanged).toBe(false)
    expect(memory.compare('m', { path: path('a c t'), reached: true })?.pathChanged).toBe(true)
  })

  test('monitors are kept apart, and the oldest is forgotten', () => {
    const memory = createPathMemory(2)
    for (const key of ['one', 'two', 'three'])
      memory.compare(key, { path: path(key), reached: false })
    expect(memory.compare('one', { path: path('other'), reached: false })).toBeUndefined()
    expect(memory.compare('three', { path: path('other'), reached: false })?.pathChanged).toBe(true)
  })
})

test('an address that comes again is a loop', () => {
  expect(loopsOf(path('a b c b c'))).toEqual([
    { address: 'b', hops: [2, 4] },
    { address: 'c', hops: [3, 5] },
  ])
  expect(loopsOf(path('a * * b'))).toEqual([])
})

describe('what a router may answer', () => {
  test('six at once, of which the last is in doubt, then one a second', () => {
    const budget = createAnswerBudget()
    const spent = Array.from({ length: 7 }, () => budget.spend('r', 0))
    expect(spent).toEqual([true, true, true, true, true, false, false])
    expect(budget.waitMs('r', 3, 0)).toBe(3000)
    expect(budget.spend('r', 1999)).toBe(false)
    expect(budget.spend('r', 3000)).toBe(true)
    expect(budget.spend('other', 0)).toBe(true)
  })

  test('no more is saved than six', () => {
    const budget = createAnswerBudget()
    budget.spend('r', 0)
    expect(budget.waitMs('r', 100, 3_600_000)).toBe(0)
    const spent = Array.from({ length: 7 }, () => budget.spend('r', 3_600_000))
    expect(spent.filter(Boolean)).toHaveLength(5)
  })
})
