// Writes monitors files into a temporary folder and reads them with the real types of monitor.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { formatProblem } from '../../../src/agent/monitors-file/problems.ts'
import { readMonitorsFile, type LoadedFile } from '../../../src/agent/monitors-file/file.ts'
import { MONITOR_TYPES } from '../../../src/monitors/registry.ts'
import { temporaryFolder } from '../temporary-folder.ts'

type Environment = Record<string, string>

/** The types that this code can run, as messages list them. */
export const TYPES = [...MONITOR_TYPES.keys()].join(', ')

/** A folder for monitors files. */
export function createFilesFolder() {
  const folder = temporaryFolder()
  let count = 0
  const write = (content: string | Uint8Array, name = `${count++}.yaml`): string => {
    const path = join(folder, name)
    writeFileSync(path, content)
    return path
  }
  return {
    folder,
    write,
    /** Reads a file that must be valid. */
    load: async (content: string, env: Environment = {}): Promise<LoadedFile> => {
      const read = await readMonitorsFile(write(content), env, MONITOR_TYPES)
      if (!read.ok) throw new Error(read.problems.map(formatProblem).join('\n'))
      return read.file
    },
    /** Problems as printed, without the path of the file. */
    problems: async (content: string | Uint8Array, env: Environment = {}): Promise<string[]> => {
      const path = write(content)
      const read = await readMonitorsFile(path, env, MONITOR_TYPES)
      return read.ok ? [] : read.problems.map((one) => formatProblem(one).replace(path, ''))
    },
  }
}

/** A file with one URL monitor, followed by the given lines. */
export const urlMonitor = (lines: string) => `monitors:\n  - name: A\n    type: URL\n${lines}\n`

/** The same with a request, followed by the given lines. */
export const urlRequest = (lines: string) =>
  urlMonitor(`    request:\n      url: http://a.test/\n${lines}`)

/** A file with one API monitor with one assertion. */
export const apiAssertion = (assertion: string) =>
  [
    'monitors:',
    '  - name: A',
    '    type: API',
    '    request:',
    '      url: http://a.test/',
    '      method: GET',
    '      assertions:',
    `        - ${assertion}\n`,
  ].join('\n')
