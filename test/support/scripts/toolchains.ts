// The real runtimes, for tests that need more than a stand-in: those of TOOLS_DIR, otherwise of the user's cache,
// where they are installed at first use.
import { readToolsFolder } from '../../../src/agent/config.ts'
import { installTool } from '../../../src/scripts/tool-install.ts'
import { openToolchains } from '../../../src/scripts/toolchains.ts'

/** Timeout of their installation, which takes half a minute each on an idle machine. */
export const INSTALL_MS_MAX = 900_000

/** The folder with these runtimes. Call it in `beforeAll` with INSTALL_MS_MAX. */
export async function realRuntimes(...ids: string[]): Promise<string> {
  const { env } = process
  const { folder } = readToolsFolder(env)
  const signal = AbortSignal.timeout(INSTALL_MS_MAX)
  for (const name of ids) {
    if ((await openToolchains(folder).find('runtime', name)) !== undefined) continue
    const outcome = await installTool({ kind: 'runtime', name, folder, env, signal })
    if ('problem' in outcome) throw new Error(`${name}: ${outcome.problem}`)
  }
  return folder
}
