// Engines and runtimes that are installed with the agent, and where each has its program. Images have
// them baked in; elsewhere `vedette engine install` and `vedette runtime install` put them there. Building an image runs
// this file before any package is installed, so it imports only what needs none.
import { readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { Environment } from '../process/env.ts'
import { ENGINES, PACKAGE_MANAGERS, RUNTIMES } from '../contract/runtimes.ts'

/** Facts that are written next to an engine or a runtime when it is complete. */
export interface InstalledTool {
  /** Like `node@24`, `pnpm@10` or `2026.04`. */
  name: string
  /** Absolute path of the program: of the engine, the manager, or the runtime's Node.js. */
  program: string
  /** Where it is; a runtime's packages are in `node_modules` in there. */
  folder: string
  /** Packages that the registry did not have. */
  missing: readonly string[]
}

export type ToolKind = 'engine' | 'package-manager' | 'runtime'

/** Whether an engine is Bun, which stands in for Node.js. */
export function isBun({ name }: InstalledTool): boolean {
  return name.startsWith('bun@')
}

/** File that an installation ends with; without it nothing counts as installed. */
export const INSTALLED_FILE = 'installed.json'

export interface Toolchains {
  readonly folder: string
  /** False in images without npm: neither engines nor runtimes can be installed there. */
  readonly canInstall: boolean
  /** Names of what is installed. */
  installed(kind: ToolKind): Promise<string[]>
  /** One that is installed, or undefined. */
  find(kind: ToolKind, name: string): Promise<InstalledTool | undefined>
}

export function toolFolder(folder: string, kind: ToolKind, name: string): string {
  return join(folder, `${kind}s`, name)
}

const KNOWN: Readonly<Record<ToolKind, ReadonlyMap<string, unknown>>> = {
  engine: ENGINES,
  'package-manager': PACKAGE_MANAGERS,
  runtime: RUNTIMES,
}

/** Names of everything of a kind that this version knows. */
export function knownTools(kind: ToolKind): string[] {
  return [...KNOWN[kind].keys()]
}

/** What to do where an engine or a runtime is missing: images that have it are named, too. */
export function toolFix(kind: 'engine' | 'runtime', name: string): string {
  const image = imageWith(kind, name)
  const also = image === undefined ? '' : `, or use the image ${image}, which includes it`
  return `install it with: vedette ${kind} install ${name}${also}`
}

/** What to do where nothing can be installed. */
export function imageFix(kind: ToolKind, name: string): string {
  return `use the image ${imageWith(kind, name) ?? 'vedette/agent'}`
}

/** The image of the agent that has a tool, if there is one. */
export function imageWith(kind: ToolKind, name: string): string | undefined {
  return kind === 'runtime' ? IMAGES_WITH_RUNTIMES.get(name) : 'vedette/agent'
}

const IMAGES_WITH_RUNTIMES: ReadonlyMap<string, string> = new Map([
  ['2026.04', 'vedette/agent'],
  ['2024.09', 'vedette/agent:7.0.2-migrate-202409-202604'],
])

const IMAGES_WITHOUT_NPM: ReadonlySet<string> = new Set(['agent-uptime', 'platform'])

/**
 * Opens the toolchains; the folder need not exist. Nothing in it is trusted but what was finished. `image`: the image
 * that this process runs in, by VEDETTE_IMAGE.
 */
export function openToolchains(folder: string, image = 'agent'): Toolchains {
  const find = async (kind: ToolKind, name: string): Promise<InstalledTool | undefined> => {
    // A name from outside never leads out of the folder.
    if (!knownTools(kind).includes(name)) return undefined
    const own = toolFolder(folder, kind, name)
    try {
      const text = await readFile(join(own, INSTALLED_FILE), 'utf8')
      const { program, missing } = JSON.parse(text) as { program: string; missing: string[] }
      return { name, program: join(own, program), folder: own, missing }
    } catch {
      return undefined
    }
  }
  return {
    folder,
    canInstall: !IMAGES_WITHOUT_NPM.has(image),
    find,
    async installed(kind) {
      const found = await Promise.all(knownTools(kind).map((name) => find(kind, name)))
      return found.filter((one) => one !== undefined).map(({ name }) => name)
    },
  }
}

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
