// Cache key of the packages of a suite. Suites share packages where nothing but a lock file of npm decides on them;
// other packages are for one suite alone, and for its project as it is.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { opendir, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { readUntrusted } from '../../sandbox/untrusted-files.ts'
import { exists, type ProjectPackages } from './packages.ts'

/** Inputs of the packages of a project. */
export interface PackagesOptions {
  /** The project. */
  folder: string
  packages: ProjectPackages | undefined
  installCommand: string
  /** The command is the suite's own. */
  isOwnCommand: boolean
  /** From the project's folder. */
  workingDir: string
  engine: string
  /** The suite. */
  owner: string
  /** Variables of the suite. */
  variables: Readonly<Record<string, string>>
}

/** The key, and what it covers. */
export interface PackagesKey {
  key: string
  /** All files of the project, with a hash of each; absent where the packages are shared. */
  files?: ReadonlyMap<string, string>
}

/** Hash of all that decides on the packages. */
export async function packagesKey(options: PackagesOptions): Promise<PackagesKey> {
  const { folder, installCommand, workingDir, engine, owner, variables } = options
  const deciding = await sharedFiles(options)
  const files = deciding ?? (await projectFiles(folder))
  const about = ['5', installCommand, workingDir, engine, process.arch]
  const own =
    deciding === undefined
      ? [owner, Object.entries(variables).sort(([one], [other]) => (one < other ? -1 : 1))]
      : []
  const text = JSON.stringify([about, own, [...files]])
  const key = createHash('sha256').update(text).digest('hex')
  return deciding === undefined ? { key, files } : { key }
}

/** Settings of a shared installation: no script runs, neither of the project nor of a package. */
export const SHARED_ENVIRONMENT = { npm_config_ignore_scripts: 'true' }

/** Variables that npm listens to. */
const STEERING = /^(?:npm_|node_|(?:https?|no|all)_proxy$)/i
/** Lines of settings that name registries, and no file, program or variable. */
const REGISTRY_LINE = /^\s*(?:[#;].*|(?:@[\w.-]+:)?registry\s*=[^$]*|\/\/[^$]*)?$/
const LIFE_CYCLE = ['preinstall', 'install', 'postinstall', 'preprepare', 'prepare', 'postprepare']
const FILE_BYTES_MAX = 67_108_864

/**
 * Hashes of the files that decide on packages, where npm alone installs them from registries and no script takes
 * part; undefined where anything else of the project might.
 */
async function sharedFiles(
  options: PackagesOptions,
): Promise<ReadonlyMap<string, string> | undefined> {
  const { folder, packages, isOwnCommand, variables } = options
  const [lockFile] = packages?.lockFiles ?? []
  if (isOwnCommand || lockFile === undefined || packages?.tool !== 'npm') return undefined
  if (packages.folder !== folder || packages.lockFiles.length > 1) return undefined
  if (Object.keys(variables).some((name) => STEERING.test(name))) return undefined
  const files = new Map<string, string>()
  for (const name of [lockFile, 'package.json', '.npmrc']) {
    const path = join(folder, name)
    // What is there and cannot be read may say anything.
    const text =
      (await readUntrusted(path, FILE_BYTES_MAX)) ?? ((await exists(path)) ? undefined : '')
    if (text === undefined || !isShareable(name, text)) return undefined
    files.set(name, createHash('sha256').update(text).digest('hex'))
  }
  return files
}

function isShareable(name: string, text: string): boolean {
  try {
    return (SHAREABLE[name] ?? isShareableLock)(text)
  } catch {
    // No JSON, or other JSON than that of npm.
    return false
  }
}

const SHAREABLE: Readonly<Record<string, (text: string) => boolean>> = {
  'package.json': (text) => {
    const { scripts = {} } = JSON.parse(text) as { scripts?: object }
    return !LIFE_CYCLE.some((one) => Object.hasOwn(scripts, one))
  },
  '.npmrc': (text) => text.split('\n').every((line) => REGISTRY_LINE.test(line)),
}

interface LockedPackage {
  resolved?: unknown
  integrity?: unknown
  hasInstallScript?: unknown
  os?: unknown
}

/** Every package comes from a registry, with its hash, and none runs a script. */
function isShareableLock(text: string): boolean {
  const { packages } = JSON.parse(text) as { packages: Record<string, LockedPackage> }
  return Object.entries(packages).every(([path, one]) => path === '' || isFromRegistry(one))
}

/** Systems for which a package is not installed here. */
const OTHERS: ReadonlySet<unknown> = new Set(['darwin', 'win32'])

function isFromRegistry({ resolved, integrity, hasInstallScript, os }: LockedPackage): boolean {
  if (typeof integrity !== 'string' || !/^https?:/.test(String(resolved))) return false
  const isForOthers = Array.isArray(os) && os.length > 0 && os.every((one) => OTHERS.has(one))
  return hasInstallScript !== true || isForOthers
}

/** All files of the project that are no packages, in the order of their paths, with a hash of each. */
export async function projectFiles(folder: string): Promise<Map<string, string>> {
  const paths: string[] = []
  const waiting = ['']
  for (let inside = waiting.pop(); inside !== undefined; inside = waiting.pop()) {
    for await (const entry of await opendir(join(folder, inside))) {
      const path = join(inside, entry.name)
      if (entry.isDirectory() && !NOT_OWN.has(entry.name)) waiting.push(path)
      else if (entry.isFile() || entry.isSymbolicLink()) paths.push(path)
    }
  }
  const files = new Map<string, string>()
  for (const path of paths.sort()) {
    const target = await readlink(join(folder, path)).catch(() => undefined)
    files.set(path, target === undefined ? await sha256Of(join(folder, path)) : `link ${target}`)
  }
  return files
}

const NOT_OWN: ReadonlySet<string> = new Set(['node_modules', '.git'])

async function sha256Of(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}
