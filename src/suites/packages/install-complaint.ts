// Finds the lines in a package manager's output that name the cause of its failure: often far above the last lines,
// which print its usage or the path of its log; and a lock file that it refuses.
import { join, relative } from 'node:path'
import { excerpt, failure, type Failure } from '../../contract/failure.ts'
import type { SandboxEnd } from '../../sandbox/request.ts'
import { LOCK_FILES, type PackageTool, type ProjectPackages } from './package-manager.ts'

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

/** An installation that failed. */
export interface FailedInstallation {
  command: string
  end: Pick<SandboxEnd, 'tail' | 'exitCode'>
  /** The project's folder. */
  project: string
  packages: ProjectPackages | undefined
  /** Connections that it could not make. */
  refused: readonly string[]
}

/** Its failure, with the cause in one line and what was written from there on, or all where that is little. */
export function installFailure(failed: FailedInstallation): Failure {
  const { command, end, refused } = failed
  const written = `${end.tail.stdout}\n${end.tail.stderr}`
  const lines = written
    .trim()
    .split('\n')
    .map((line) => line.trimEnd())
  const fromCause = lines.slice(causeAt(lines))
  const isNpm = OF_NPM.test(fromCause[0] ?? '')
  const cause = excerpt(isNpm ? causeOfNpm(fromCause) : causeOfOthers(fromCause), CAUSE_CHARS_MAX)
  const all = lines.join('\n')
  const output =
    all.length <= OUTPUT_CHARS_MAX ? all : excerpt(fromCause.join('\n'), OUTPUT_CHARS_MAX - 1)
  const ended = `${command} ended with exit code ${end.exitCode}: ${cause}`
  const stale = staleLock(written, failed)
  if (stale === undefined) return failure('INSTALL_FAILED', ended, { output, refused })
  const { lockFile, fix } = stale
  const message = `${lockFile} does not match package.json; run ${fix} in the project, and include the new ${lockFile}: ${ended}`
  return failure('INSTALL_FAILED', message, { output, refused, lockFile, fix })
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

/** The lock file that an installation was ended for, if it was, and the command that writes it anew. */
function staleLock(written: string, { project, packages }: FailedInstallation) {
  const found = REFUSALS.find(([, pattern]) => pattern.test(written))
  if (found === undefined || packages === undefined) return undefined
  const [tool, , fix] = found
  const name = packages.lockFiles.find((one) => LOCK_FILES.get(one) === tool)
  if (name === undefined) return undefined
  return { lockFile: join(relative(project, packages.folder), name), fix }
}
