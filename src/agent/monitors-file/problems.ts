// Problems of a monitors file: collected all at once, each with its place, the value and the fix.
// Values that may be secret never get into one.

import { counted } from '../../contract/schema/amounts.ts'
import { withoutCredentials } from '../../process/env.ts'
import { nearest } from '../../process/nearest.ts'
import { seeHelp } from '../../process/see-help.ts'

/** Path within the file's value: keys and indexes from its root. */
export type Path = readonly (string | number)[]

/** One thing that is wrong with a monitors file. */
export interface Problem {
  /** As the user named it. */
  file: string
  /** From 1; missing when the problem is about the file as a whole. */
  line?: number
  /** From 1, in UTF-16 units. */
  column?: number
  /** Like `monitors[3].request.url`; empty for the file as a whole. */
  path: string
  /** What is wrong, and what would be right. */
  message: string
  /** The problem stands for so many that are not shown. */
  furtherCount?: number
  /** The page of the manual about the type of the monitor that it is in, as `vedette help` names it. */
  topic?: string
}

/** A problem whose place is known only as a path, as the checks find it. */
export interface Finding {
  path: Path
  message: string
  /** Whether the key itself is meant, not its value. */
  atKey?: boolean
  /** Another place of the problem; the message ends with its line. */
  other?: Path
}

/** Collects findings, each once, and stores a bounded number of them. */
export interface Findings {
  push(finding: Finding): void
  reported(): readonly Finding[]
  /** All that were pushed, including those not stored. */
  count(): number
}

const FINDINGS_MAX = 10_000

/** Creates an empty collection. */
export function createFindings(): Findings {
  const reported = new Map<string, Finding>()
  let beyond = 0
  return {
    push(finding) {
      const key = `${formatPath(finding.path)}: ${finding.message}`
      if (reported.size < FINDINGS_MAX) reported.set(key, finding)
      else if (!reported.has(key)) beyond++
    },
    reported: () => [...reported.values()],
    count: () => reported.size + beyond,
  }
}

/** Problems shown of one file; the rest is counted. */
export const PROBLEMS_MAX = 50

const VALUE_CHARS_MAX = 80

/** `monitors.yaml:12:7  monitors[3].request.url: not a URL; …` */
export function formatProblem(problem: Problem): string {
  const place = [problem.file, problem.line, problem.column].filter((one) => one !== undefined)
  const subject = problem.path === '' ? '' : `${problem.path}: `
  return `${place.join(':')}  ${subject}${problem.message}`
}

/** `1 problem`, `60 problems`: those that are not shown included. */
export function countedProblems(problems: readonly Problem[]): string {
  const count = problems.reduce((sum, { furtherCount = 1 }) => sum + furtherCount, 0)
  return counted(count, 'problem')
}

/** The lines that name the pages of the manual about the problems. */
export function seeProblems(problems: readonly Problem[]): string {
  const topics = problems.flatMap(({ topic }) => topic ?? [])
  return seeHelp(topics.length > 0 ? topics : ['monitors'])
}

/** Keys that need no quotes are joined by dots, indexes and the rest stand in brackets. */
export function formatPath(path: Path): string {
  let text = ''
  for (const key of path) {
    if (typeof key === 'number') text += `[${key}]`
    else if (/^[A-Za-z_$][\w$-]{0,63}$/.test(key)) text += text === '' ? key : `.${key}`
    else text += `[${shown(key)}]`
  }
  return text
}

/** A value as a message shows it: on one line, bounded, control characters escaped. */
export function shown(value: unknown): string {
  const text = typeof value === 'number' ? String(value) : (JSON.stringify(value) ?? 'nothing')
  return text.length <= VALUE_CHARS_MAX ? text : `${text.slice(0, VALUE_CHARS_MAX)}…`
}

/** `did you mean …?`, where one of the known texts is near. */
export function didYouMean(text: unknown, known: Iterable<string>): string | undefined {
  const meant = typeof text === 'string' ? nearest(text, known) : undefined
  return meant === undefined ? undefined : `did you mean ${meant}?`
}

// Names of fields whose values are secret or may hold a secret in plain text.
const SECRET_KEY = /pass|secret|token|private|credential|authorization|cookie|api-?_?key|proxyUrl/i
const SECRET_PARENT = new Set([
  'headers',
  'queryParameters',
  'metadata',
  'basicAuth',
  'variables',
  'environmentVariables',
  'tls',
  // Of an assertion, which may be about a secret.
  'target',
])

/** Whether the value at `path` must not be shown. */
export function isSecretPath(path: Path): boolean {
  return path.some(
    (key) => typeof key === 'string' && (SECRET_PARENT.has(key) || SECRET_KEY.test(key)),
  )
}

/** ` (got …)` for a plain value that may be shown, else nothing. */
export function got(path: Path, value: unknown): string {
  if (value === undefined || isSecretPath(path)) return ''
  if (typeof value === 'object' && value !== null) {
    return Array.isArray(value) ? ' (got a list)' : ' (got a mapping)'
  }
  // The line of an assertion that names a secret has another one as its target.
  if (typeof value === 'string' && SECRET_KEY.test(value)) return ''
  const text = typeof value === 'string' ? withoutCredentials(value) : value
  return ` (got ${shown(text)})`
}

/**
 * Scrubs secret values out of a message, longest first. Values of one or two letters stay: scrubbing them would
 * make the text unreadable and hide nothing.
 */
export function withoutSecrets(message: string, secrets: Iterable<string>): string {
  const present = [...secrets].filter((one) => one.length > 2 && message.includes(one))
  present.sort((a, b) => b.length - a.length)
  return present.reduce((text, secret) => text.replaceAll(secret, '…'), message)
}
