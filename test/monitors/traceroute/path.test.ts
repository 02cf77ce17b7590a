// Aim: the hash of a path is the same everywhere and for ever, and a path counts as changed exactly when
// something that answered before answers elsewhere or otherwise.
import { describe, expect, test } from 'vitest'
import { loopsOf, pathHash, PathMemory, shownPath } from '../../../src/monitors/traceroute/path.ts'

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
    ['a target that turns out to be nearer', 'a * * t', REACHED, 'a b t', REACHED, false],
    ['two distances in doubt', 'a * t', REACHED, 'a * * t', REACHED, false],
  ])('%s', (_, before, wasReached, now, reached, changed) => {
    const memory = new PathMemory()
    expect(memory.compare('m', path(before), wasReached)).toBeUndefined()
    const change = memory.compare('m', path(now), reached)
    expect(change?.pathChanged).toBe(changed)
    expect(change?.previousPath).toEqual(changed ? before.split(' ') : undefined)
  })

  test('monitors are kept apart, and the oldest is forgotten', () => {
    const memory = new PathMemory(2)
    for (const key of ['one', 'two', 'three']) memory.compare(key, path(key), false)
    expect(memory.compare('one', path('other'), false)).toBeUndefined()
    expect(memory.compare('three', path('other'), false)?.pathChanged).toBe(true)
  })
})

test('an address that comes again is a loop', () => {
  expect(loopsOf(path('a b c b c'))).toEqual([
    { address: 'b', hops: [2, 4] },
    { address: 'c', hops: [3, 5] },
  ])
  expect(loopsOf(path('a * * b'))).toEqual([])
})
