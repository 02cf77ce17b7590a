// Finds environment variables whose name is nearly one of ours.

/** Names of other programs that lie a letter or two from names that programs like ours have. */
const OTHERS: ReadonlySet<string> = new Set(['APP_KEY', 'FTP_PROXY', 'ALL_PROXY', 'RSYNC_PROXY'])

/** Short names differ by a letter all the time without being meant for each other. */
const NAME_CHARS_MIN = 7
const DIFFERENCE_MAX = 2

/** A name that was set, and the name that was probably meant. */
export interface NearVariable {
  name: string
  meant: string
}

/**
 * Set names that are no known name but the same without regard to case, `-`, `_` and `.`, or that
 * differ from one in a single place by at most two letters.
 */
export function nearVariables(
  env: Readonly<Record<string, string | undefined>>,
  known: readonly string[],
): NearVariable[] {
  const names = new Set(known)
  const byLetters = new Map(known.map((name) => [letters(name), name]))
  const found: NearVariable[] = []
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined || names.has(name) || OTHERS.has(name.toUpperCase())) continue
    const meant = byLetters.get(letters(name)) ?? mistyped(name, known)
    if (meant !== undefined) found.push({ name, meant })
  }
  return found
}

function letters(name: string): string {
  return name.toUpperCase().replaceAll(/[-_.]/g, '')
}

function mistyped(name: string, known: readonly string[]): string | undefined {
  if (name.length < NAME_CHARS_MIN) return undefined
  let best: string | undefined
  let bestDifference = DIFFERENCE_MAX + 1
  for (const candidate of known) {
    if (candidate.length < NAME_CHARS_MIN) continue
    const difference = differingChars(name.toUpperCase(), candidate)
    if (difference < bestDifference) {
      best = candidate
      bestDifference = difference
    }
  }
  return best
}

/** Length of the longer name without the common beginning and end. */
function differingChars(a: string, b: string): number {
  let start = 0
  while (start < a.length && a[start] === b[start]) start++
  let end = 0
  const endMax = Math.min(a.length, b.length) - start
  while (end < endMax && a[a.length - 1 - end] === b[b.length - 1 - end]) end++
  return Math.max(a.length, b.length) - start - end
}
