// Every agent and the platform must compute the same slots: evenly spaced, spread over monitors, stable.
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  everyMs,
  offsetMs,
  slotAtOrAfter,
  slotAtOrBefore,
  slotsBetween,
  slotsOf,
} from '../../src/contract/timetable.ts'
import { FREQUENCIES } from '../../src/contract/monitor.ts'

const timing = fc.oneof(
  fc.record({
    id: fc.string({ minLength: 1 }),
    frequency: fc.constantFrom(...FREQUENCIES.filter((minutes) => minutes > 0)),
  }),
  fc.record({
    id: fc.string({ minLength: 1 }),
    frequency: fc.constant(0),
    frequencyOffset: fc.integer({ min: 1, max: 59 }),
  }),
)
const instant = fc.integer({ min: 0, max: 4_102_444_800_000 })

describe('interval', () => {
  test.each([
    ['minutes', { id: 'a', frequency: 10 }, 600_000],
    ['seconds when the frequency is 0', { id: 'a', frequency: 0, frequencyOffset: 30 }, 30_000],
    ['one second at the least', { id: 'a', frequency: 0, frequencyOffset: 1 }, 1000],
    ['never nothing, whatever came through', { id: 'a', frequency: 0 }, 1000],
  ])('%s', (_, given, expected) => expect(everyMs(given)).toBe(expected))
})

describe('slots', () => {
  test('lie on n × every + offset, in whole milliseconds', () => {
    fc.assert(
      fc.property(timing, instant, (given, from) => {
        const slots = slotsOf(given)
        const first = slotAtOrAfter(slots, from)
        expect((first - slots.offsetMs) % slots.everyMs).toBe(0)
        expect(slotAtOrAfter(slots, first + 1) - first).toBe(slots.everyMs)
        expect(Number.isInteger(slots.offsetMs)).toBe(true)
        expect(slots.offsetMs).toBeGreaterThanOrEqual(0)
        expect(slots.offsetMs).toBeLessThan(slots.everyMs)
      }),
    )
  })

  test('before and after enclose an instant, and meet on a slot', () => {
    fc.assert(
      fc.property(timing, instant, (given, at) => {
        const slots = slotsOf(given)
        const [before, after] = [slotAtOrBefore(slots, at), slotAtOrAfter(slots, at)]
        expect(before).toBeLessThanOrEqual(at)
        expect(after).toBeGreaterThanOrEqual(at)
        expect(after - before).toBe(before === at ? 0 : slots.everyMs)
        expect(slotAtOrBefore(slots, after)).toBe(after)
      }),
    )
  })

  test('are counted additively over neighbouring spans', () => {
    fc.assert(
      fc.property(timing, fc.tuple(instant, instant, instant), (given, instants) => {
        const slots = slotsOf(given)
        const [a, b, c] = instants.toSorted((x, y) => x - y) as [number, number, number]
        const whole = slotsBetween(slots, a, c)
        expect(slotsBetween(slots, a, b) + slotsBetween(slots, b, c)).toBe(whole)
      }),
    )
  })

  test('a span counts its first instant and not its last', () => {
    const slots = { everyMs: 1000, offsetMs: 250 }
    expect(slotsBetween(slots, 250, 1250)).toBe(1)
    expect(slotsBetween(slots, 251, 1250)).toBe(0)
    expect(slotsBetween(slots, 251, 1251)).toBe(1)
    expect(slotsBetween(slots, 5000, 5000)).toBe(0)
    expect(slotsBetween(slots, 9000, 5000)).toBe(0)
  })
})

describe('offsets', () => {
  test('are the same for ever: these values must never change', () => {
    expect(offsetMs({ id: 'shop-front', frequency: 10 })).toBe(OFFSET_OF_SHOP_FRONT)
  })

  test('are uniform: a thousand ids fill ten parts of the interval alike', () => {
    const parts = Array.from({ length: 10 }, () => 0)
    for (let n = 0; n < 1000; n++) {
      const part = Math.floor(offsetMs({ id: `monitor-${n}`, frequency: 1 }) / 6000)
      parts[part] = (parts[part] ?? 0) + 1
    }
    // Chi-square with 9 degrees of freedom stays below 27.9 but for one time in a thousand.
    const chi = parts.reduce((total, count) => total + (count - 100) ** 2 / 100, 0)
    expect(chi).toBeLessThan(27.9)
  })
})

/** floor(first 48 bits of SHA-256("shop-front") / 2^48 × 600,000). */
const OFFSET_OF_SHOP_FRONT = 101_285
