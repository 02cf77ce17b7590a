// Removes what agents that were killed left of their runs: folders of runs and of installations that no live
// process holds, and processes that still run in them.
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Log } from '../process/log.ts'
import { runsCacheFolder } from '../scripts/toolchains.ts'
import type { AgentConfig } from './config.ts'
import { RUN_PREFIX } from './run/work-folder.ts'

/** Folders of runs, of trials of the sandbox, and of doctor. */
const WORK_PREFIXES = [RUN_PREFIX, 'sandbox-', 'doctor-']

/** Removes them; live agents in the same folders keep theirs. Never rejects. */
export async function removeLeftovers(config: AgentConfig, log: Log): Promise<void> {
  const { workRoot, dataDir, toolsDir, scriptUserId } = config
  const caches = await foldersIn(runsCacheFolder(dataDir, toolsDir))
  const kinds: [root: string, prefix: string][] = [
    ...WORK_PREFIXES.map((prefix): [string, string] => [workRoot, prefix]),
    ...caches.map((root): [string, string] => [root, '.draft-']),
  ]
  const found = []
  for (const kind of kinds) if (await hasAny(...kind)) found.push(kind)
  // The binding to the C library costs memory, which most agents never need.
  if (found.length === 0) return
  try {
    const { removeUnlocked } = await import('../sandbox/locked-folder.ts')
    const { endRunsOf } = await import('../sandbox/leftover-processes.ts')
    let removed = 0
    for (const [root, prefix] of found) {
      const count = await removeUnlocked(root, prefix, (path) => endRunsOf(path, scriptUserId))
      removed += count.removed
      for (const { path, error } of count.failed)
        log.warn({ path, err: error }, 'files of a killed agent cannot be removed')
    }
    if (removed > 0)
      log.info({ folders: removed }, 'leftover files and processes of killed agents are removed')
  } catch (error) {
    log.warn({ err: error }, 'leftover files of killed agents cannot be removed')
  }
}

async function hasAny(root: string, prefix: string): Promise<boolean> {
  const names = await readdir(root).catch(() => [] as string[])
  return names.some((name) => name.startsWith(prefix))
}

async function foldersIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => [])
  return entries.filter((one) => one.isDirectory()).map(({ name }) => join(folder, name))
}
