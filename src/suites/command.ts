// Command that starts the tests of a suite: Playwright's own program on the engine where the test command is only
// that, which saves the start of npx; else a shell.
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { StopRequest } from '../sandbox/request.ts'
import { exists } from './packages/package-manager.ts'
import { type InstalledTool, isBun } from '../scripts/toolchains.ts'

export interface SuiteCommand {
  command: string
  args: string[]
  ask: StopRequest
}

/** From asking Playwright to end its tests, in which it writes its report, to killing it. */
const GRACE_MS = 2_500

const PLAYWRIGHT =
  /^\s*(?:(?:npx|bunx|bun x|pnpm(?: exec)?|pnpx|yarn(?: run)?)\s+)?(?:--no-install\s+|--no\s+)?playwright\s+test(?=\s|$)(.*)$/s

/** The command that runs `testCommand`; `cli` is the file of Playwright's program in the project, if there is one. */
export function suiteCommand(
  testCommand: string,
  engine: InstalledTool,
  cli: string | undefined,
): SuiteCommand {
  const rest = PLAYWRIGHT.exec(testCommand)?.[1]
  const parts = rest === undefined ? undefined : argumentsOf(rest)
  if (parts === undefined || cli === undefined) {
    // A shell waits for what it has started, and does not hand a signal on.
    const ask: StopRequest = { signal: 'SIGINT', to: 'group', graceMs: GRACE_MS }
    return { command: '/bin/sh', args: ['-c', testCommand], ask }
  }
  const ask: StopRequest = { signal: 'SIGINT', to: 'leader', graceMs: GRACE_MS }
  return { command: engine.program, args: [cli, 'test', ...parts], ask }
}

/** The arguments of a command line in which a shell would find nothing but arguments; else undefined. */
export function argumentsOf(text: string): string[] | undefined {
  const parts: string[] = []
  let rest = text.trim()
  while (rest !== '') {
    let argument = ''
    let found = ARGUMENT_PART.exec(rest)
    if (found === null) return undefined
    while (found !== null) {
      const [whole, single, double, plain] = found
      argument += single ?? double ?? plain ?? ''
      rest = rest.slice(whole.length)
      found = ARGUMENT_PART.exec(rest)
    }
    parts.push(argument)
    if (rest !== '' && !/^[ \t]/.test(rest)) return undefined
    rest = rest.trimStart()
  }
  return parts
}

const ARGUMENT_PART = /^(?:'([^']*)'|"([^"$`\\!]*)"|([\w@%+=:,./-]+))/

/** An argument, quoted for a shell where it must be. */
export function quoted(argument: string): string {
  return /^[\w@%+=:,./-]+$/.test(argument)
    ? argument
    : `'${argument.replaceAll("'", String.raw`'\''`)}'`
}

/** Folders with programs for commands on this engine; Bun stands in for node and npx. */
export async function enginePrograms(engine: InstalledTool, folder: string): Promise<string[]> {
  if (!isBun(engine)) return [dirname(engine.program)]
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

/** The package that a command would download from anybody, since the project in `folders` does not have it. */
export async function missingPackage(
  command: string,
  folders: readonly string[],
): Promise<string | undefined> {
  for (const [, , name = ''] of command.matchAll(FETCHING)) {
    if (BROUGHT.has(name)) continue
    const places = folders.flatMap((folder) =>
      [name, `.bin/${basename(name)}`].map((place) => join(folder, 'node_modules', place)),
    )
    const found = await Promise.all(places.map(exists))
    if (!found.includes(true)) return name
  }
  return undefined
}
