// The scripts that API monitors of a monitors file name by their paths: read into the definition, together with
// what they import by relative paths.
import { dirname, join, relative, sep } from 'node:path'
import { isText } from '../../contract/http-monitor.ts'
import type { Findings, Path } from './problems.ts'
import type { Fields } from './shorthands.ts'
import type { TlsFiles } from './variables.ts'

/** Path of a script → the fields for its text and for what it imports. */
const SCRIPTS = {
  setupScriptPath: ['localSetupScript', 'setupScriptDependencies'],
  tearDownScriptPath: ['localTearDownScript', 'tearDownScriptDependencies'],
} as const

const FILES_MAX = 100

/** Reads files, each once; paths are relative to the monitors file. */
export type FileReader = Pick<TlsFiles, 'read' | 'resolve'>

interface Script {
  /** Absolute path → text; the script itself is the first. */
  files: Map<string, string>
  problem?: string
}

/** Replaces paths that have no text next to them by the texts of their files. */
export async function readScripts(
  fields: Fields,
  path: Path,
  reader: FileReader,
  findings: Findings,
): Promise<void> {
  for (const [pathKey, [textKey, importedKey]] of Object.entries(SCRIPTS)) {
    const name = fields[pathKey]
    if (typeof name !== 'string' || name.trim() === '' || isText(fields[textKey])) continue
    const { files, problem } = await readScript(reader.resolve(name), name, reader)
    if (problem !== undefined) {
      findings.push({ path: [...path, pathKey], message: problem })
      delete fields[pathKey]
      continue
    }
    const root = commonFolder([...files.keys()])
    const [script, ...imported] = [...files].map(([at, content]) => ({
      path: relative(root, at).split(sep).join('/'),
      content,
    }))
    fields[pathKey] = script?.path
    fields[textKey] = script?.content
    if (imported.length > 0) fields[importedKey] = imported
  }
}

async function readScript(first: string, name: string, reader: FileReader): Promise<Script> {
  const files = new Map<string, string>()
  const begun = await reader.read(first)
  if ('problem' in begun) return { files, problem: `${name}: ${begun.problem}` }
  if (begun.text.trim() === '') {
    return {
      files,
      problem: `${name}: the file is empty; write the script into it, or leave it out`,
    }
  }
  files.set(first, begun.text)
  // The map grows on the way, and is gone through to its end.
  for (const [at, text] of files) {
    for (const wanted of relativeImports(text)) {
      const found = await findImport(join(dirname(at), wanted), reader)
      if (found === undefined) continue
      files.set(found.path, files.get(found.path) ?? found.text)
      if (files.size > FILES_MAX) return { files, problem: `imports more than ${FILES_MAX} files` }
    }
  }
  return { files }
}

const IMPORT = /(?:\bfrom|\bimport|\brequire)\s*\(?\s*(['"])(\.{1,2}\/[^'"\n]+)\1/g

/** Relative imports of the text, as far as static analysis finds them. */
function relativeImports(text: string): string[] {
  return Array.from(text.matchAll(IMPORT), ([, , path]) => path as string)
}

const ENDINGS = [
  '',
  '.ts',
  '.js',
  '.mjs',
  '.cjs',
  '.mts',
  '.cts',
  '.json',
  '/index.ts',
  '/index.js',
]

/** The file that an import means; one that is not there is for the script to miss when it runs. */
async function findImport(path: string, reader: FileReader) {
  for (const ending of ENDINGS) {
    const read = await reader.read(path + ending)
    if ('text' in read) return { path: path + ending, text: read.text }
  }
  return undefined
}

function commonFolder(paths: readonly string[]): string {
  let folder = dirname(paths[0] ?? sep)
  while (!paths.every((one) => one.startsWith(folder === sep ? sep : folder + sep))) {
    folder = dirname(folder)
  }
  return folder
}
