// Projects of check suites, and runs of them: on this project's own Node.js and Playwright, in the real sandbox.
import { mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { basename, join } from 'node:path'
import { SuiteMonitor } from '../../../src/monitors/suite/definition.ts'
import type { ScriptContext } from '../../../src/scripts/context.ts'
import type { Observation } from '../../../src/contract/observation.ts'
import type { RunProgress, ScriptHost } from '../../../src/scripts/host.ts'
import { runSuite, type SuiteWatcher } from '../../../src/suites/run.ts'
import { testContext } from '../monitors/monitor-context.ts'
import { copyPlaywright, ownNode, projectFolder, testScriptHost } from '../scripts/script-host.ts'
import { temporaryFolder } from '../temporary-folder.ts'

/** A folder with these files; `packages` puts Playwright into its node_modules. */
export function suiteProject(files: Record<string, string>, packages = true): string {
  const folder = projectFolder(files)
  if (packages) symlinkSync(playwrightModules(), join(folder, 'node_modules'))
  return folder
}

let modules: string | undefined

/** A node_modules with Playwright, copied once. */
function playwrightModules(): string {
  if (modules === undefined) {
    modules = join(temporaryFolder(), 'node_modules')
    copyPlaywright(modules)
  }
  return modules
}

/** A host with Node 24, this project's own, as an engine. */
export function suiteHost(options: { blocked?: string[] } = {}): ScriptHost {
  const tools = join(temporaryFolder(), 'tools')
  ownNode(tools, 'engine', 'node@24')
  return { ...testScriptHost({ tools, ...options }), ownProjects: true }
}

/** A run that has ended. */
export interface EndedSuite extends Observation {
  codes: string[]
  /** Texts of its artifacts, by name. */
  files: Record<string, Buffer>
  progress: RunProgress[]
  folder: string
}

/** Runs the suite in a folder; `options` are fields of the monitor. */
export async function runFolder(
  host: ScriptHost,
  codeBundlePath: string,
  options: Record<string, unknown> = {},
  around: Partial<ScriptContext> & { watcher?: SuiteWatcher } = {},
): Promise<EndedSuite> {
  const about = { id: 'suite', name: 'Shop', checkType: 'PLAYWRIGHT', codeBundlePath }
  const engine = { engine: 'node', engineVersion: '24' }
  const monitor = SuiteMonitor.parse({ ...about, ...engine, ...options })
  const folder = join(temporaryFolder(), 'run')
  mkdirSync(folder)
  const attached: string[] = []
  const progress: RunProgress[] = []
  const context: ScriptContext = {
    ...testContext(),
    workFolder: () => Promise.resolve(folder),
    attach: (path) => void attached.push(path),
    progress: (at) => progress.push(at),
    location: 'here',
    ...around,
  }
  const observation = await runSuite(monitor, context, host, around.watcher)
  // Files may be attached before they are written.
  const files = Object.fromEntries(attached.map((path) => [basename(path), readFileSync(path)]))
  rmSync(folder, { recursive: true, force: true })
  const codes = observation.failures.map(({ code }) => code)
  return { ...observation, codes, files, progress, folder }
}
