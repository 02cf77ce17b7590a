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

/** Error text of an invalid pattern, or undefined. */
export function regexProblem(pattern: string): string | undefined {
  try {
    compileRegex(pattern)
    return undefined
  } catch (error) {
    return `not a regular expression: ${(error as Error).message.replace(/^Invalid regular expression: /, '')}`
  }
}
