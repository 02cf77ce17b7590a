// Finds the lines in a package manager's output that name the cause of its failure: often far above the last lines,
// which print its usage or the path of its log; and a lock file that it refuses.
import { join, relative } from 'node:path'
import { LOCK_FILES, type PackageTool, type ProjectPackages } from './packages.ts'

/** What went wrong, and what was written from there on. */
export interface InstallComplaint {
  /** One line. */
  cause: string
  /** The first of them names the cause, where more was written than this takes. */
  output: string
}

const OUTPUT_CHARS_MAX = 4_000
const CAUSE_CHARS_MAX = 500
const CAUSE_LINES_MAX = 3

/** npm's lines about an error, of 7 to 9 with `ERR!`. */
const OF_NPM = /^npm (?:error|ERR!)\s*/
/** Lines that mean something only inside of npm, or that repeat another line. */
const NOISE_OF_NPM = /^(?:errno|syscall|path|A complete log|This is (?:not|probably)|$)/
/** From here on it prints its usage. */
const USAGE_OF_NPM = /^(?:Usage:|Clean install a project|Install a package)$/

/** Others name a cause in one line: pnpm of all ages, Yarn 1 and Bun, then Yarn 2 and newer by its numbers for errors. */
const IN_ONE_LINE = [
  /╰─▶/,
  /\bERR_PNPM_\w+/,
  /^\s*(?:error|ERROR)\b[:\s]/,
  // Changes of the lock file have the number of the sentence that comes after them.
  /\bYN00(?:01|02|09|1[0568]|28|35|41|62|8[0-2]): [│└┌·] +[^\s+-]/,
  /\b(?:error|ERR|failed|not found)\b/i,
]
/** Prefixes of a cause. */
const BEFORE = /^\s*(?:╰─▶|➤ YN\d{4}: [│└┌·])\s*/

/** Both streams of one that failed. */
export function installComplaint(written: string): InstallComplaint {
  const lines = written
    .trim()
    .split('\n')
    .map((line) => line.trimEnd())
  const at = causeAt(lines)
  const said = OF_NPM.test(lines[at] ?? '')
    ? causeOfNpm(lines.slice(at))
    : causeOfOthers(lines.slice(at))
  const whole = lines.join('\n')
  const output =
    whole.length <= OUTPUT_CHARS_MAX ? whole : lines.slice(at).join('\n').slice(0, OUTPUT_CHARS_MAX)
  return { cause: said.slice(0, CAUSE_CHARS_MAX), output }
}

/** The line that names it; where none does, the last one. */
function causeAt(lines: readonly string[]): number {
  for (const pattern of [OF_NPM, ...IN_ONE_LINE]) {
    const at = lines.findIndex((line) => pattern.test(line))
    if (at >= 0) return at
  }
  return lines.length - 1
}

/** A line, which pnpm 12 breaks where a terminal ends. */
function causeOfOthers([first = '', ...rest]: readonly string[]): string {
  const endAt = rest.findIndex((line) => line.trim() === '')
  const broken = first.includes('╰─▶') ? rest.slice(0, Math.min(endAt, CAUSE_LINES_MAX)) : []
  return [first.replace(BEFORE, ''), ...broken].map((line) => line.trim()).join(' ')
}

/** `E404: 404 Not Found - GET https://…; …` */
function causeOfNpm(lines: readonly string[]): string {
  const said = lines.filter((line) => OF_NPM.test(line)).map((line) => line.replace(OF_NPM, ''))
  const usageAt = said.findIndex((line) => USAGE_OF_NPM.test(line))
  const about = usageAt < 0 ? said : said.slice(0, usageAt)
  const code = about.find((line) => line.startsWith('code '))?.slice('code '.length)
  const causes = about.filter((line) => !line.startsWith('code ') && !NOISE_OF_NPM.test(line))
  const text = causes.slice(0, CAUSE_LINES_MAX).join('; ')
  return code === undefined ? text : `${code}: ${text}`
}

/** A lock file that is behind. */
export interface StaleLock {
  /** From the project's folder. */
  lockFile: string
  /** The command that writes it anew. */
  fix: string
}

/** What each writes; Yarn has two such sentences, of version 1 and of newer ones. */
const REFUSALS: readonly [tool: PackageTool, pattern: RegExp, fix: string][] = [
  ['npm', /can only install packages when your package\.json and .*in sync/, 'npm install'],
  [
    'pnpm',
    /ERR_PNPM_(?:OUTDATED_LOCKFILE|LOCKFILE_CONFIG_MISMATCH|LOCKFILE_BREAKING_CHANGE|FROZEN_LOCKFILE)/,
    'pnpm install --no-frozen-lockfile',
  ],
  ['yarn', /Your lockfile needs to be updated/, 'yarn install'],
  ['yarn', /The lockfile would have been (?:modified|created)/, 'yarn install --no-immutable'],
  ['bun', /lockfile had changes, but lockfile is frozen/, 'bun install'],
]

/** The lock file that an installation was ended for, if it was. */
export function staleLock(
  written: string,
  project: string,
  packages: ProjectPackages | undefined,
): StaleLock | undefined {
  const found = REFUSALS.find(([, pattern]) => pattern.test(written))
  if (found === undefined || packages === undefined) return undefined
  const [tool, , fix] = found
  const name = packages.lockFiles.find((one) => LOCK_FILES.get(one) === tool)
  if (name === undefined) return undefined
  return { lockFile: join(relative(project, packages.folder), name), fix }
}
