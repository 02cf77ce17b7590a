// The real `vedette doctor` as a separate process, on settings of a test.
import { join } from 'node:path'
import type { Finding, Probed } from '../../../src/cli/doctor/finding.ts'
import { startVedette } from '../platform/platform-process.ts'
import { temporaryFile, temporaryFolder } from '../temporary-folder.ts'
import { FAKE_KEY } from '../agent/fake-platform.ts'

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

/** Settings of an agent of this platform. */
export const agentOf = (url: string) => ({ PLATFORM_URL: url, API_KEY: FAKE_KEY })

const IN_FILE = {
  URL: 'request: { url: "http://127.0.0.1:9/" }',
  ICMP: 'request: { hostname: 127.0.0.1 }',
  TRACEROUTE: 'request: { url: 127.0.0.1 }',
  MULTI_STEP: 'script: "1"',
  BROWSER: 'script: "1"',
} as const

/** Settings of an agent on a file with a monitor of each type, whose targets do not answer. */
export function onFile(...types: (keyof typeof IN_FILE)[]) {
  const lines = (types.length === 0 ? ['URL' as const] : types).map(
    (type) => `  - { name: ${type}, type: ${type}, every: 1h, ${IN_FILE[type]} }\n`,
  )
  return { MONITORS_FILE: temporaryFile('monitors.yaml', `monitors:\n${lines.join('')}`) }
}

/** Runs the doctor to its end; by default with an empty DATA_DIR and without tools. */
export async function examine({ env, prefix, args = ['--json'] }: Examination): Promise<Examined> {
  const folder = temporaryFolder()
  const given = { DATA_DIR: folder, TOOLS_DIR: join(folder, 'tools'), AGENT_HEALTH_PORT: '0' }
  const doctor = startVedette(['doctor', ...args], { HOME: undefined, ...given, ...env }, prefix)
  const { code, stdout, stderr } = await doctor.ended
  const isJson = stdout.startsWith('{')
  const report = isJson
    ? (JSON.parse(stdout) as { works: boolean; findings: Finding[] })
    : undefined
  const findings = report?.findings ?? []
  const found = (id: Probed) => findings.find((one) => one.id === id)
  const broken = findings.filter(({ standing }) => standing === 'broken').map(({ id }) => id)
  return { code, stdout, stderr, works: report?.works, broken, found }
}
