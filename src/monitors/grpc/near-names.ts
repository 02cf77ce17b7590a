// Similar names, for messages about a name that does not exist.

/** Compared candidates, at most; a server may list any number. */
const CANDIDATES_MAX = 2000
/** Longer names are no typing errors. */
const NAME_CHARS_MAX = 200
const SHOWN_MAX = 3

/** Those nearest to a name that does not exist, and what a message says of them: `none` where there are none. */
export function nearFix(name: string, candidates: Iterable<string>, none: string) {
  const near = nearNames(name, candidates).join(', ')
  return { near, fix: near === '' ? none : `did you mean ${near}?` }
}

/** The up to three candidates most similar to the name, most similar first. */
export function nearNames(name: string, candidates: Iterable<string>): string[] {
  const looked = [...candidates].slice(0, CANDIDATES_MAX)
  if (looked.length <= SHOWN_MAX) return looked
  const wanted = name.slice(0, NAME_CHARS_MAX).toLowerCase()
  return looked
    .map((candidate) => ({ candidate, far: distance(wanted, candidate.toLowerCase()) }))
    .sort((a, b) => a.far - b.far)
    .slice(0, SHOWN_MAX)
    .map(({ candidate }) => candidate)
}

/** Share of pairs of neighbouring letters that the two do not have in common, 0 to 1 (Dice). */
function distance(a: string, b: string): number {
  const [mine, theirs] = [pairsOf(a), pairsOf(b.slice(0, NAME_CHARS_MAX))]
  let common = 0
  for (const pair of mine) if (theirs.has(pair)) common++
  return 1 - (2 * common) / (mine.size + theirs.size || 1)
}

function pairsOf(text: string): Set<string> {
  const pairs = new Set<string>()
  for (let at = -1; at < text.length; at++) pairs.add(`${text[at] ?? ''}|${text[at + 1] ?? ''}`)
  return pairs
}
