// Every agent and the platform must compute the same slots: evenly spaced, spread over monitors, stable.
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import * as timetable from '../../src/contract/timetable.ts'
import { FREQUENCIES } from '../../src/contract/monitor.ts'

const { everyMs, offsetMs, slotAtOrAfter, slotAtOrBefore, slotsBetween, slotsOf } = timetable
const id = fc.string({ minLength: 1 })
const minutes = FREQUENCIES.filter((one) => one > 0)
const frequencyOffset = fc.integer({ min: 1, max: 59 })
const timing = fc.oneof(
  fc.record({ id, frequency: fc.constantFrom(...minutes) }),
  fc.record({ id, frequency: fc.constant(0), frequencyOffset }),
)
const instant = fc.integer({ min: 0, max: 4_102_444_800_000 })

test.each([
  ['minutes', { id: 'a', frequency: 10 }, 600_000],
  ['seconds when the frequency is 0', { id: 'a', frequency: 0, frequencyOffset: 30 }, 30_000],
  ['never nothing, whatever came through', { id: 'a', frequency: 0 }, 1000],
])('the interval is %s', (_, given, expected) => expect(everyMs(given)).toBe(expected))

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
        // Those before and after enclose the instant, and meet on a slot.
        const before = slotAtOrBefore(slots, from)
        expect(before).toBeLessThanOrEqual(from)
        expect(first).toBeGreaterThanOrEqual(from)
        expect(first - before).toBe(before === from ? 0 : slots.everyMs)
        expect(slotAtOrBefore(slots, first)).toBe(first)
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
    const count = (from: number, until: number) =>
      slotsBetween({ everyMs: 1000, offsetMs: 250 }, from, until)
    expect([count(250, 1250), count(251, 1250), count(251, 1251)]).toEqual([1, 0, 1])
    expect([count(5000, 5000), count(9000, 5000)]).toEqual([0, 0])
  })
})

describe('offsets', () => {
  test('are the same for ever: these values must never change', () => {
    // floor(first 48 bits of SHA-256("shop-front") / 2^48 × 600,000).
    expect(offsetMs({ id: 'shop-front', frequency: 10 })).toBe(101_285)
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
