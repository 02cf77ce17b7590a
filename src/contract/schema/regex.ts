// Regular expressions that people write in monitors: ECMAScript syntax, Unicode mode where it parses.

/** Compiles a pattern; throws a SyntaxError when it is not a regular expression. */
export function compileRegex(pattern: string): RegExp {
  try {
    return new RegExp(pattern, 'u')
  } catch {
    // Patterns like `\-` or `{` are fine in ordinary mode and common in the wild.
    return new RegExp(pattern)
  }
}

/** Error text of an invalid pattern, or undefined. It does not quote the pattern, which may contain a secret. */
export function regexProblem(pattern: string): string | undefined {
  try {
    compileRegex(pattern)
    return undefined
  } catch (error) {
    // V8: `Invalid regular expression: /pattern/flags: reason`.
    const reason = /\/: ([^/]+)$/.exec((error as Error).message)?.[1]
    return `not a regular expression${reason === undefined ? '' : `: ${reason}`}`
  }
}
