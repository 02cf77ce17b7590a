// Nearest match of a mistyped name, for "did you mean …?" in error messages.

/** Longest text that is compared; anything longer is no typing mistake. */
const TEXT_CHARS_MAX = 64

/**
 * The candidate nearest to `text`, ignoring case, or undefined when none is near enough (more than a
 * third of the letters differ). Distance by Damerau–Levenshtein (optimal string alignment).
 */
export function nearest(text: string, candidates: Iterable<string>): string | undefined {
  if (text.length > TEXT_CHARS_MAX) return undefined
  const wanted = text.toLowerCase()
  let best: string | undefined
  let bestDistance = Math.max(1, Math.floor(wanted.length / 3)) + 1
  for (const candidate of candidates) {
    const distance = distanceBetween(wanted, candidate.toLowerCase().slice(0, TEXT_CHARS_MAX))
    if (distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best
}

/** Known names that a fix shows. */
const NAMES_SHOWN_MAX = 20

/** The fix for an unknown name: the nearest of the known ones, else the first of them, or that there are none. */
export function nameFix(name: string, known: readonly string[]): string {
  if (known.length === 0) return 'none is known'
  const near = nearest(name, known)
  if (near !== undefined) return `did you mean ${near}?`
  const more = known.length > NAMES_SHOWN_MAX ? ', …' : ''
  return `known are ${known.slice(0, NAMES_SHOWN_MAX).join(', ')}${more}`
}

function distanceBetween(a: string, b: string): number {
  let beforePrevious: number[] = []
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const current = [i]
    for (let j = 1; j <= b.length; j++) {
      const change = a[i - 1] === b[j - 1] ? 0 : 1
      let cost = Math.min(
        (previous[j] ?? 0) + 1,
        (current[j - 1] ?? 0) + 1,
        (previous[j - 1] ?? 0) + change,
      )
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      if (swapped) cost = Math.min(cost, (beforePrevious[j - 2] ?? 0) + 1)
      current.push(cost)
    }
    beforePrevious = previous
    previous = current
  }
  return previous[b.length] ?? 0
}
