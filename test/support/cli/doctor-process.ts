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

/** Settings of an agent on a file with one monitor, whose target does not answer. */
export const onFile = () => ({
  MONITORS_FILE: temporaryFile(
    'monitors.yaml',
    'monitors:\n  - { name: a, type: URL, every: 1h, request: { url: "http://127.0.0.1:9/" } }\n',
  ),
})

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
