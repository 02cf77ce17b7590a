// Tells regular expressions that are certainly cheap on a text from those that might not be, without
// understanding them: it only ever errs towards expensive.

/**
 * An upper bound for the steps that a backtracking engine takes to search `pattern` in a text of
 * `characters`; Infinity if this simple estimate does not apply.
 *
 * Without lookaround, references and repeated groups, each unbounded repetition multiplies the work by
 * the length of the text, each choice by two. Escaped and bracketed signs are counted as if they
 * meant something, which only makes the bound larger.
 */
export function regexStepsMax(pattern: string, characters: number): number {
  if (/\(\?[=!<]|\\[1-9k]|\)[*+{]/.test(pattern)) return Infinity
  const repetitions = pattern.match(/[*+{]/g)?.length ?? 0
  const choices = pattern.match(/[|?]/g)?.length ?? 0
  return pattern.length * (characters + 1) ** (repetitions + 1) * 2 ** choices
}
