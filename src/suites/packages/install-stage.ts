// Stage of an installation when it was cut short: from npm's log, since npm writes nothing to its output meanwhile,
// else the last line of output.
import { lstat, opendir } from 'node:fs/promises'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { leadsInside, readUntrusted } from '../../sandbox/untrusted-files.ts'

const LOG_BYTES_MAX = 4_194_304
const STAGE_CHARS_MAX = 300

/** Remembers the last line of what is written, piece by piece. */
export class LastLine {
  #line = ''

  add(chunk: Buffer): void {
    const lines = stripVTControlCharacters(chunk.toString()).split('\n')
    this.#line = lines.map((line) => line.trim()).findLast((line) => /\w/.test(line)) ?? this.#line
  }

  get text(): string {
    return this.#line
  }
}

/** The second half of a sentence; `home` is that of the installation, in which nothing runs any more. */
export async function installWasAt(home: string, lastLine: string): Promise<string> {
  const noted = await notedByNpm(home).catch(() => undefined)
  const written = lastLine === '' ? 'nothing was written until then' : `it was at: ${lastLine}`
  return (noted ?? written).slice(0, STAGE_CHARS_MAX)
}

async function notedByNpm(home: string): Promise<string | undefined> {
  const folder = join(home, '.npm/_logs')
  // User code has been there.
  if (!(await leadsInside(folder, home))) return undefined
  const logs: { path: string; atMs: number }[] = []
  for await (const { name } of await opendir(folder)) {
    if (!name.endsWith('-debug-0.log')) continue
    const path = join(folder, name)
    const found = await lstat(path)
    if (found.isFile()) logs.push({ path, atMs: found.mtimeMs })
  }
  const newest = logs.sort((one, other) => other.atMs - one.atMs)[0]
  const text = newest && (await readUntrusted(newest.path, LOG_BYTES_MAX))
  return text === undefined ? undefined : stageOfNpm(text)
}

/** Of its log: the script that it runs, else what it fetches. */
export function stageOfNpm(log: string): string | undefined {
  const running = new Map<string, string>()
  let fetching: string | undefined
  for (const line of log.split('\n')) {
    const [, name = '', event = '', rest = ''] = RUN.exec(line) ?? []
    if (rest.startsWith('{')) running.delete(`${name} ${event}`)
    else if (name !== '')
      running.set(`${name} ${event}`, `${event} of ${name} (${commandOf(rest)})`)
    fetching = FETCH.exec(line)?.[1] ?? fetching
  }
  const script = [...running.values()].at(-1)
  if (script !== undefined) return `it was running ${script}`
  return fetching === undefined ? undefined : `it was fetching: ${fetching}`
}

const RUN = /^\d+ info run (\S+) (\w+) (.+)$/
const FETCH = /^\d+ (?:silly fetch manifest|http fetch \w+(?: \d+)?) (\S+)/

/** Behind the package's folder stands what is run. */
const commandOf = (rest: string) => rest.slice(rest.indexOf(' ') + 1)
