// The environment variables of a command, as its help shows them.
import type { VariableText } from './env.ts'

/** A heading and one line for each variable: name, meaning, default. */
export function environmentHelp(variables: readonly VariableText[]): string {
  const width = Math.max(...variables.map(({ name }) => name.length))
  const rows = variables.map(({ name, default: fallback, meaning }) => {
    const unset = fallback === '–' ? '' : ` (default ${fallback})`
    return `  ${name.padEnd(width)}  ${meaning}${unset}`
  })
  const heading = 'Environment (each NAME also as NAME_FILE, a file that holds the value):'
  return [heading, ...rows].join('\n')
}
