// Probes which engines and runtimes are installed, and whether their programs start.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { knownTools, type Toolchains } from '../../scripts/toolchains.ts'
import type { Finding } from './finding.ts'

const START_MS = 5000
const run = promisify(execFile)

const LABELS = {
  engine: { id: 'engines', for: 'check suites', example: 'node@24' },
  runtime: { id: 'runtimes', for: 'browser and multistep scripts', example: '2026.04' },
} as const

/** Probes all installed tools of a kind. */
export async function probeTools(
  kind: 'engine' | 'runtime',
  tools: Toolchains,
  signal: AbortSignal,
): Promise<Finding[]> {
  const { id, for: use, example } = LABELS[kind]
  const found = await Promise.all(knownTools(kind).map((name) => tools.find(kind, name)))
  const installed = found.filter((one) => one !== undefined)
  if (installed.length === 0) {
    const finding = tools.canInstall
      ? { says: `none installed, so no ${use}`, fix: `vedette ${kind} install ${example}` }
      : { says: `not in this image, which runs no ${use}`, fix: 'use the image vedette/agent' }
    return [{ id, standing: 'absent', ...finding }]
  }
  const started = await Promise.all(
    installed.map(async ({ name, program }) => ({ name, ...(await versionOf(program, signal)) })),
  )
  const managers = kind === 'engine' ? await tools.installed('package-manager') : []
  const facts = { folder: tools.folder, installed: started, ...(kind === 'engine' && { managers }) }
  const bad = started.filter(({ problem }) => problem !== undefined)
  if (bad.length > 0) {
    const says = bad.map(({ name, problem }) => `${name} does not start: ${problem}`).join('; ')
    const fix = `vedette ${kind} install ${bad[0]?.name} --again`
    return [{ id, standing: 'broken', says, fix, facts }]
  }
  const names = started.map(({ name, version }) => `${name} (${version})`).join(', ')
  const also = managers.length === 0 ? '' : `; ${managers.join(', ')}`
  return [{ id, standing: 'works', says: `${names}${also}`, facts }]
}

async function versionOf(
  program: string,
  signal: AbortSignal,
): Promise<{ version?: string; problem?: string }> {
  try {
    const options = { timeout: START_MS, signal, env: {}, killSignal: 'SIGKILL' as const }
    const { stdout } = await run(program, ['--version'], options)
    return { version: stdout.trim().replace(/^v/, '').slice(0, 40) }
  } catch (error) {
    const { code, signal: by } = error as { code?: string | number; signal?: string }
    const how = typeof code === 'number' ? `exit code ${code}` : (code ?? by ?? 'no answer')
    return { problem: how }
  }
}
