// The runtime that a script runs on: a Node.js with pinned packages.
import { join } from 'node:path'
import { DEFAULT_RUNTIME } from '../contract/versions.ts'
import { type TargetFailure, targetFailure } from '../network/target-failure.ts'
import { imageFix, toolFix, type Toolchains } from './toolchains.ts'

export interface ScriptRuntime {
  id: string
  /** Absolute path of its Node.js. */
  node: string
  folder: string
  modules: string
}

/** The runtime of a monitor that names one, or none. Throws a TargetFailure where it is not installed. */
export async function scriptRuntime(
  tools: Toolchains,
  named: string | null,
): Promise<ScriptRuntime> {
  const id = named ?? DEFAULT_RUNTIME
  const found = await tools.find('runtime', id)
  if (found === undefined) throw missingTool(tools, 'runtime', id, { runtime: id })
  const { program, folder } = found
  return { id, node: program, folder, modules: join(folder, 'node_modules') }
}

const MISSING = { engine: 'ENGINE_MISSING', runtime: 'RUNTIME_MISSING' } as const

/** The failure of a run whose engine or runtime is not installed: another image where this one cannot have it. */
export function missingTool(
  tools: Toolchains,
  kind: 'engine' | 'runtime',
  name: string,
  details: Record<string, unknown>,
): TargetFailure {
  if (!tools.canInstall) {
    const message = `this image runs neither scripts nor check suites; ${imageFix(kind, name)}`
    return targetFailure('SCRIPT_UNSUPPORTED', message, details)
  }
  const message = `the ${kind} ${name} is not installed in ${tools.folder}; ${toolFix(kind, name)}`
  return targetFailure(MISSING[kind], message, details)
}
