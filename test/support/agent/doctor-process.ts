// The real `vedette doctor` as a separate process, on settings of a test.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Finding, Probed } from '../../../src/cli/doctor/finding.ts'
import { temporaryFolder } from '../temporary-folder.ts'

/** The outcome of a doctor run. */
export interface Examined {
  code: number | null
  stdout: string
  stderr: string
  works: boolean | undefined
  /** The ids of the broken findings. */
  broken: readonly Probed[]
  /** The finding of an id; undefined without one. */
  found(id: Probed): Finding | undefined
}

/** Environment and arguments of a doctor run. */
export interface Examination {
  env: Record<string, string | undefined>
  /** Put before its command line. */
  prefix?: readonly string[]
  /** Default: `--json`. */
  args?: readonly string[]
}

const LAUNCH = fileURLToPath(new URL('../../../src/launch.js', import.meta.url))

/** Runs the doctor to its end; by default with an empty DATA_DIR and without tools. */
export async function examine({
  env,
  prefix = [],
  args = ['--json'],
}: Examination): Promise<Examined> {
  const folder = temporaryFolder()
  const command = [...prefix, process.execPath, LAUNCH, 'doctor', ...args]
  const child = spawn(command[0] ?? '', command.slice(1), {
    env: {
      PATH: process.env['PATH'],
      AGENT_HEALTH_PORT: '0',
      DATA_DIR: folder,
      TOOLS_DIR: join(folder, 'tools'),
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
  const [code] = (await once(child, 'close')) as [number | null]
  const isJson = stdout.startsWith('{')
  const report = isJson
    ? (JSON.parse(stdout) as { works: boolean; findings: Finding[] })
    : undefined
  const findings = report?.findings ?? []
  const found = (id: Probed) => findings.find((one) => one.id === id)
  const broken = findings.filter(({ standing }) => standing === 'broken').map(({ id }) => id)
  return { code, stdout, stderr, works: report?.works, broken, found }
}
