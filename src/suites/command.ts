// How the tests of a suite are started: Playwright's own program on the engine where the command is no more
// than that, which saves the start of npx, else a shell.
import { lstat, mkdir, symlink, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { StopRequest } from '../sandbox/request.ts'
import type { InstalledTool } from '../scripts/toolchains.ts'

/** A command for the sandbox. */
export interface SuiteCommand {
  command: string
  args: string[]
  ask: StopRequest
}

/** From asking Playwright to end its tests, in which it writes its report, to killing it. */
const GRACE_MS = 2_500

const PLAYWRIGHT =
  /^\s*(?:(?:npx|bunx|bun x|pnpm(?: exec)?|pnpx|yarn(?: run)?)\s+)?(?:--no-install\s+|--no\s+)?playwright\s+test(?=\s|$)(.*)$/s

/**
 * The command that runs `testCommand` on the engine. `cli` is the file of Playwright's program in the project,
 * where it has one.
 */
export function suiteCommand(
  testCommand: string,
  engine: InstalledTool,
  cli: string | undefined,
): SuiteCommand {
  const rest = PLAYWRIGHT.exec(testCommand)?.[1]
  const words = rest === undefined ? undefined : wordsOf(rest)
  if (words === undefined || cli === undefined) {
    // A shell waits for what it has started, and does not hand a signal on.
    const ask: StopRequest = { signal: 'SIGINT', to: 'group', graceMs: GRACE_MS }
    return { command: '/bin/sh', args: ['-c', testCommand], ask }
  }
  const ask: StopRequest = { signal: 'SIGINT', to: 'leader', graceMs: GRACE_MS }
  return { command: engine.program, args: [cli, 'test', ...words], ask }
}

/** The words of a command line in which a shell would find nothing but words; else undefined. */
export function wordsOf(text: string): string[] | undefined {
  const words: string[] = []
  let rest = text.trim()
  while (rest !== '') {
    let word = ''
    let found = WORD_PART.exec(rest)
    if (found === null) return undefined
    while (found !== null) {
      const [whole, single, double, plain] = found
      word += single ?? double ?? plain ?? ''
      rest = rest.slice(whole.length)
      found = WORD_PART.exec(rest)
    }
    words.push(word)
    if (rest !== '' && !/^[ \t]/.test(rest)) return undefined
    rest = rest.trimStart()
  }
  return words
}

const WORD_PART = /^(?:'([^']*)'|"([^"$`\\!]*)"|([\w@%+=:,./-]+))/

/** A word as a shell takes it, whatever it holds. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`
}

/**
 * The folders with programs for commands on this engine. Bun stands in for node and npx, so that what a
 * project calls by these names runs on it; `folder` is the run's own.
 */
export async function enginePrograms(engine: InstalledTool, folder: string): Promise<string[]> {
  if (!engine.name.startsWith('bun@')) return [dirname(engine.program)]
  const own = join(folder, '.vedette', 'programs')
  await mkdir(own, { recursive: true })
  for (const name of ['node', 'bunx']) await symlink(engine.program, join(own, name))
  await writeFile(join(own, 'npx'), NPX, { mode: 0o755 })
  return [own, dirname(engine.program)]
}

/** Programs of the project first, on Bun; `bun x` itself wants to read the folders above. */
const NPX = `#!/bin/sh
while [ "\${1#-}" != "$1" ]; do shift; done
folder=$PWD
while [ "$folder" != / ]; do
  program=$folder/node_modules/.bin/$1
  if [ -e "$program" ]; then shift; exec "$program" "$@"; fi
  folder=$(dirname "$folder")
done
exec bun x --bun "$@"
`

const FETCHING =
  /(?:^|[;&|(])\s*(?:\w+=[^\s'"]*\s+)*(?:npx|bunx|bun x|pnpm dlx|pnpx|yarn dlx)\s+((?:--no-install\s+|--no\s+|--quiet\s+|-q\s+)*)((?:@[\w.-]+\/)?[a-z\d][\w.-]*)(?=[\s;&|)@]|$)/gi
/** Programs that come with an engine or a package manager. */
const BROUGHT = new Set(['node', 'npm', 'npx', 'corepack', 'pnpm', 'yarn', 'bun'])

/**
 * The package that a command names for a program such as npx, and that the project in `folders` does not have:
 * it would be downloaded, whoever wrote it. What asks for that by a word such as `--yes` is left alone.
 */
export async function missingPackage(
  command: string,
  folders: readonly string[],
): Promise<string | undefined> {
  for (const [, , name = ''] of command.matchAll(FETCHING)) {
    if (BROUGHT.has(name)) continue
    const places = folders.flatMap((folder) =>
      [name, `.bin/${basename(name)}`].map((place) => join(folder, 'node_modules', place)),
    )
    const found = await Promise.all(places.map((place) => lstat(place).then(yes, no)))
    if (!found.includes(true)) return name
  }
  return undefined
}

const yes = () => true
const no = () => false
