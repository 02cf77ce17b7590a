// Runs `vedette import` in this process, and reads what it writes as the agent would.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readMonitorsFile } from '../../../src/agent/monitors-file/file.ts'
import { runImport } from '../../../src/cli/import/command.ts'
import type { Monitor } from '../../../src/contract/monitor.ts'
import { MONITOR_TYPES } from '../../../src/monitors/registry.ts'
import { temporaryFolder } from '../temporary-folder.ts'

/** What came of an import. `monitors` are those of the written file, which was valid. */
export interface Imported {
  code: number
  out: string
  err: string
  monitors: Monitor[]
  /** Names of the secrets that the written file has. */
  secrets: string[]
}

/** What is expected of one option: fields of the monitor, or what is said of it. */
export type Expected = object | 'refused' | 'noted' | 'nothing'

/** In every source of the tests: must never be printed. */
export const HIDDEN = 'hidden-1'

/** The outcome as `expectedOutcome` has it. */
export function outcomeOf({ code, out, err, monitors: [monitor] }: Imported) {
  const isPlaced = /^refused: \S+:\d+:\d+ {2}/m.test(err)
  const isNoted = /^note: \S+:\d+:\d+ {2}/m.test(err)
  const said = isPlaced ? 'refused' : isNoted ? 'noted' : 'nothing'
  return { code, said, isHidden: !`${out}${err}`.includes(HIDDEN), monitor }
}

/** The outcome of a table's row. */
export function expectedOutcome(expected: Expected, note: 'noted' | 'nothing' = 'nothing') {
  if (expected === 'refused') return { code: 2, said: 'refused', isHidden: true }
  if (typeof expected === 'string') return { code: 0, said: expected, isHidden: true }
  return { code: 0, said: note, isHidden: true, monitor: expected }
}

interface ImportInput {
  /** Files of one folder; the first one is imported. */
  files: Readonly<Record<string, string>>
  options?: Readonly<Record<string, string | boolean>>
  /** Values of secrets, where any text will not do. */
  env?: Readonly<Record<string, string>>
}

/** Imports the first file. Rejects where the written file is not valid. */
export async function imported({ files, options = {}, env = {} }: ImportInput): Promise<Imported> {
  const folder = temporaryFolder()
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  let out = ''
  let err = ''
  const args = {
    positionals: [join(folder, Object.keys(files)[0] ?? '')],
    value: (name: string) => (typeof options[name] === 'string' ? options[name] : undefined),
    on: (name: string) => options[name] === true,
  }
  const write = (text: string) => (out += text)
  const complain = (text: string) => (err += text)
  const code = await runImport(args, { write, complain })
  const secrets = [...(/^secrets:\n((?: {2}- \w+\n)*)/m.exec(out)?.[1] ?? '').matchAll(/- (\w+)/g)]
  const names = secrets.map(([, name = '']) => name)
  return {
    code,
    out,
    err,
    monitors: out === '' ? [] : await monitorsOf(out, names, env),
    secrets: names,
  }
}

async function monitorsOf(
  text: string,
  secrets: readonly string[],
  given: Record<string, string>,
): Promise<Monitor[]> {
  const path = join(temporaryFolder(), 'monitors.yaml')
  writeFileSync(path, text)
  const env = {
    ...Object.fromEntries(secrets.map((name) => [name, 'value-of-a-secret'])),
    ...given,
  }
  const read = await readMonitorsFile(path, env, MONITOR_TYPES)
  if (!read.ok) throw new Error(JSON.stringify(read.problems))
  return read.file.monitors
}
