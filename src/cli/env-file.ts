// Variables from a file of `NAME=value` lines, as `--env-file` names it.
import { readFile } from 'node:fs/promises'
import { parseEnv } from 'node:util'

/** The variables of the file, none where none is named, or a sentence on why it cannot be read. */
export async function readEnvFile(
  path: string | undefined,
): Promise<Record<string, string> | string> {
  if (path === undefined) return {}
  try {
    return parseEnv(await readFile(path, 'utf8')) as Record<string, string>
  } catch (error) {
    return `--env-file: ${(error as Error).message}`
  }
}
