// Folders of engines, runtimes and the cache of user code on this machine.
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { Environment } from '../process/env.ts'

/**
 * Where engines and runtimes are: TOOLS_DIR, else `tools` in DATA_DIR, else the user's cache; root's is the
 * system's, as the users that root's runs get may not enter its home.
 */
export function toolsFolder(
  toolsDir: string | undefined,
  dataDir: string | undefined,
  env: Environment,
): string {
  if (toolsDir !== undefined) return toolsDir
  if (dataDir !== undefined) return join(dataDir, 'tools')
  const cache = env['XDG_CACHE_HOME'] ?? ''
  const usual = process.getuid?.() === 0 ? '/var/cache' : join(homedir(), '.cache')
  return join(cache.startsWith('/') ? cache : usual, 'vedette', 'tools')
}

/** Of the cache between runs of user code: with the data, as tools may be part of a read-only image. */
export function runsCacheFolder(dataDir: string | undefined, toolsDir: string): string {
  return join(dataDir ?? toolsDir, 'cache')
}
