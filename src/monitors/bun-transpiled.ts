// What Bun makes of the large files of Playwright before it can run them. It keeps that below the home folder, which
// each run has anew: it is made once, when packages are installed, and kept with them.
import { lstat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Cage } from './cage.ts'
import type { CageLimits } from './cage-order.ts'
import type { InstalledTool } from './toolbox.ts'

/** For which project, and with what. */
export interface TranspileOrder {
  cage: Cage
  /** The run's folder. */
  folder: string
  /** Of the project, where its packages are. */
  packagesFolder: string
  /** Where tests start. */
  cwd: string
  engine: InstalledTool
  limits: CageLimits
  signal: AbortSignal
}

const PLACE = 'node_modules/.bun-transpiled'
const VARIABLE = 'BUN_RUNTIME_TRANSPILER_CACHE_PATH'
const WALL_MS_MAX = 30_000

/** Makes it. Without it runs are slower and nothing else, so that whatever goes wrong is no matter. */
export async function transpilePlaywright(order: TranspileOrder): Promise<void> {
  const { cage, folder, packagesFolder, cwd, engine, limits, signal } = order
  if (!engine.name.startsWith('bun@') || !(await isFolder(join(packagesFolder, 'node_modules'))))
    return
  const { ended } = cage.run(
    {
      command: engine.program,
      args: ['--no-install', '-e', LOAD_LARGE_FILES],
      folder,
      cwd,
      readable: [engine.folder],
      environment: { [VARIABLE]: join(packagesFolder, PLACE) },
      limits: { ...limits, wallMs: WALL_MS_MAX },
      ask: { signal: 'SIGTERM', to: 'group', graceMs: 500 },
    },
    signal,
  )
  await ended
}

/** The variable that leads Bun there, where it was made. */
export async function transpiledVariables(
  packagesFolders: readonly string[],
): Promise<Record<string, string>> {
  for (const one of packagesFolders) {
    if (await isFolder(join(one, PLACE))) return { [VARIABLE]: join(one, PLACE) }
  }
  return {}
}

/** Links are none. */
async function isFolder(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => undefined))?.isDirectory() === true
}

/**
 * Bun keeps files from 50 kB on, under the hash of their content. Those below `vite` are for browsers. Packages are
 * sought by hand: what Bun does not find from here, it downloads.
 */
const LOAD_LARGE_FILES = `
const { existsSync, readdirSync, realpathSync, statSync } = require('node:fs')
const { dirname, join } = require('node:path')
const find = (name, from) => {
  const path = join(from, 'node_modules', name)
  if (existsSync(path)) return realpathSync(path)
  return from === '/' ? process.exit() : find(name, dirname(from))
}
const playwright = find('playwright', find('@playwright/test', process.cwd()))
for (const folder of [playwright, find('playwright-core', playwright)]) {
  for (const name of readdirSync(join(folder, 'lib'), { recursive: true })) {
    const path = join(folder, 'lib', name)
    if (!name.endsWith('.js') || name.startsWith('vite/') || statSync(path).size < 50_000) continue
    try { require(path) } catch {}
  }
}
process.exit()
`
