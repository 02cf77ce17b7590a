// The runtime that a script runs on: a Node.js with pinned packages.
import { join } from 'node:path'
import { DEFAULT_RUNTIME } from '../contract/versions.ts'
import { targetFailure } from '../network/target-failure.ts'
import { toolFix, type Toolchains } from './toolchains.ts'

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
  if (found === undefined) {
    const message = `the runtime ${id} is not installed in ${tools.folder}; ${toolFix('runtime', id)}`
    throw targetFailure('RUNTIME_MISSING', message, { runtime: id })
  }
  const { program, folder } = found
  return { id, node: program, folder, modules: join(folder, 'node_modules') }
}
