// Real toolchains: those of TOOLS_DIR or of the user's cache, where they are installed at first use.
import { readToolsFolder } from '../../../src/agent/config.ts'
import { installTool } from '../../../src/scripts/tool-install.ts'
import {
  openToolchains,
  type InstalledTool,
  type ToolKind,
} from '../../../src/scripts/toolchains.ts'

/** Timeout of their installation, which takes half a minute each on an idle machine. */
export const INSTALL_MS_MAX = 900_000

const { folder } = readToolsFolder(process.env)

/** One of them. Call it in `beforeAll` with INSTALL_MS_MAX. */
export async function realTool(kind: ToolKind, name: string): Promise<InstalledTool> {
  const found = await openToolchains(folder).find(kind, name)
  if (found !== undefined) return found
  const signal = AbortSignal.timeout(INSTALL_MS_MAX)
  const outcome = await installTool({ kind, name, folder, env: process.env, signal })
  if ('problem' in outcome) throw new Error(`${name}: ${outcome.problem}`)
  return outcome.tool
}

/** The folder with these runtimes. */
export async function realRuntimes(...ids: string[]): Promise<string> {
  for (const id of ids) await realTool('runtime', id)
  return folder
}
