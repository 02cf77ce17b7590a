// Response times counted in classes whose bounds grow by a constant factor, so that any quantile is known
// within 2 %, and histograms of hours and locations add up without loss. The classes are those of DDSketch
// (Masson, Rim, Lee: DDSketch, VLDB 2019) without its collapsing: times are bounded, so classes are too.

/** How far a quantile may be off, as a part of its value. */
export const RELATIVE_ERROR = 0.02
/** Class i contains the times in (GROWTH^(i-1), GROWTH^i] milliseconds. */
const GROWTH = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
/** Shorter times count as this. */
const SHORTEST_MS = 0.01

/** Class → count, sparse: the content of `response_times` of a rollup. */
export type ResponseHistogram = Record<string, number>

const LOG_GROWTH = Math.log(GROWTH)

/** The class of a response time, as SQL on the column or expression `ms`. */
export function classSql(ms: string): string {
  return `ceil(ln(greatest(${ms}::float8, ${SHORTEST_MS})) / ${LOG_GROWTH})::int`
}

/** The representative time of a class, within RELATIVE_ERROR of every time in it. */
function timeOfClass(index: number): number {
  return (2 * GROWTH ** index) / (GROWTH + 1)
}

/** Adds `more` to `into`. */
export function mergeHistogram(into: ResponseHistogram, more: ResponseHistogram): void {
  for (const [index, count] of Object.entries(more)) into[index] = (into[index] ?? 0) + count
}

/** How many times are counted. */
export function countOf(histogram: ResponseHistogram): number {
  return Object.values(histogram).reduce((sum, count) => sum + count, 0)
}

/**
 * The quantiles of `shares`, each in [0, 1], ascending: of n times in order the one numbered
 * ceil(share × n), the smallest for 0. Null where nothing is counted.
 */
export function quantilesOf(
  histogram: ResponseHistogram,
  shares: readonly number[],
): (number | null)[] {
  const classes = Object.entries(histogram)
    .map(([index, count]) => ({ index: Number(index), count }))
    .filter(({ count }) => count > 0)
    .sort((a, b) => a.index - b.index)
  const total = countOf(histogram)
  if (total === 0) return shares.map(() => null)
  let seen = 0
  let at = -1
  return shares.map((share) => {
    const rank = Math.max(1, Math.ceil(share * total))
    while (seen < rank && at < classes.length - 1) seen += classes[++at]?.count ?? 0
    return timeOfClass(classes[at]?.index ?? 0)
  })
}
