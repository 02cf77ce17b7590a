// Recognizes the messages with which package managers refuse a lock file that does not fit package.json, and names
// the fix.
import { join, relative } from 'node:path'
import { LOCK_FILES, type PackageTool, type ProjectPackages } from './packages.ts'

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
