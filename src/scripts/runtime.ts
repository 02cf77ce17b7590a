// The runtime that a script runs on: its Node.js and its packages, where they are installed.
import { join } from 'node:path'
import { DEFAULT_RUNTIME } from '../contract/versions.ts'
import { targetFailure } from '../network/target-failure.ts'
import type { ScriptHost } from './host.ts'
import { toolFix } from './toolchains.ts'

/** An installed runtime. */
export interface ScriptRuntime {
  id: string
  /** Absolute path of its Node.js. */
  node: string
  folder: string
  /** Its packages. */
  modules: string
}

/** The runtime of a monitor that names one, or none. Throws a TargetFailure where it is not installed. */
export async function scriptRuntime(
  host: ScriptHost,
  named: string | null,
): Promise<ScriptRuntime> {
  const id = named ?? DEFAULT_RUNTIME
  const found = await host.tools.find('runtime', id)
  if (found === undefined) {
    const message = `the runtime ${id} is not installed in ${host.tools.folder}; ${toolFix('runtime', id)}`
    throw targetFailure('RUNTIME_MISSING', message, { runtime: id })
  }
  const { program, folder } = found
  return { id, node: program, folder, modules: join(folder, 'node_modules') }
}
