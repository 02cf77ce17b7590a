// Aim: quantiles of a histogram lie within the stated error of the true ones, for any times, and merging
// histograms is the same as counting everything in one.
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  classOf,
  countOf,
  mergeHistogram,
  quantilesOf,
  RELATIVE_ERROR,
  type ResponseHistogram,
  SHORTEST_MS,
  timeOfClass,
} from '../../../src/platform/analytics/response-histogram.ts'

const times = fc.array(
  fc.double({ min: SHORTEST_MS, max: 86_400_000, noNaN: true }).map((ms) => ms),
  { minLength: 1, maxLength: 200 },
)
const SHARES = [0, 0.5, 0.95, 0.99, 1]

function histogramOf(all: readonly number[]): ResponseHistogram {
  const histogram: ResponseHistogram = {}
  for (const ms of all) histogram[classOf(ms)] = (histogram[classOf(ms)] ?? 0) + 1
  return histogram
}

test('every time is within the error of its class', () => {
  fc.assert(
    fc.property(fc.double({ min: SHORTEST_MS, max: 86_400_000, noNaN: true }), (ms) => {
      const off = Math.abs(timeOfClass(classOf(ms)) - ms) / ms
      expect(off).toBeLessThanOrEqual(RELATIVE_ERROR * 1.000_001)
    }),
  )
})

test('quantiles are within the error of the true ones', () => {
  fc.assert(
    fc.property(times, (all) => {
      const sorted = all.toSorted((a, b) => a - b)
      for (const [at, quantile] of quantilesOf(histogramOf(all), SHARES).entries()) {
        const rank = Math.max(1, Math.ceil((SHARES[at] ?? 0) * all.length))
        const exact = sorted[rank - 1] ?? 0
        const off = Math.abs((quantile ?? 0) - exact) / exact
        expect(off).toBeLessThanOrEqual(RELATIVE_ERROR * 1.000_001)
      }
    }),
  )
})

test('merged histograms are the histogram of everything', () => {
  fc.assert(
    fc.property(fc.array(times, { minLength: 1, maxLength: 6 }), (parts) => {
      const merged: ResponseHistogram = {}
      for (const part of parts) mergeHistogram(merged, histogramOf(part))
      expect(merged).toEqual(histogramOf(parts.flat()))
      expect(countOf(merged)).toBe(parts.flat().length)
    }),
  )
})

describe('at the ends', () => {
  test('an empty histogram has no quantile', () => {
    expect(quantilesOf({}, SHARES)).toEqual([null, null, null, null, null])
  })
  test('times below the shortest class count as the shortest', () => {
    expect(classOf(0)).toBe(classOf(SHORTEST_MS))
  })
})
