// Inputs that determine the packages of a suite: their cache key, and the files and variables that they are installed
// from. Shared packages are installed from the inputs of their key alone, so that no other file of one project can
// influence the packages of another.
import { createHash, type Hash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { access, opendir, readFile, readlink } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { foldersUpward, type PackageTool, type ProjectPackages } from './packages.ts'

/** Inputs of the packages of a project. */
export interface PackagesOptions {
  /** The project. */
  folder: string
  packages: ProjectPackages | undefined
  installCommand: string
  /** From the project's folder. */
  workingDir: string
  engine: string
  /** Whose project it is, where its own files take part in the installation. */
  owner: string
  isOwnCommand: boolean
  /** Variables of the suite. */
  environment: Readonly<Record<string, string>>
}

/** From what they are installed. */
export interface PackagesPlan {
  /** Hash of all that decides. */
  key: string
  /** What alone decides, by its path from the project's folder; absent where all of the project's files do. */
  files?: ReadonlyMap<string, Buffer>
  /** The variables that the installation is given. */
  environment: Readonly<Record<string, string>>
}

/** Settings of package managers that change what is installed, in addition to the lock file. */
const SETTINGS_FILES = [
  'package.json',
  'package.json5',
  'package.yaml',
  '.npmrc',
  '.yarnrc',
  '.yarnrc.yml',
  'pnpm-workspace.yaml',
  '.pnpmfile.cjs',
  '.pnpmfile.mjs',
  'bunfig.toml',
]
/** Files of variables that they read by themselves. */
const VARIABLE_FILES: Partial<Record<PackageTool, readonly string[]>> = {
  yarn: ['.env.yarn'],
  bun: ['.env', '.env.production', '.env.local', '.env.production.local'],
}
const PROGRAMS: ReadonlySet<string> = new Set([
  'pnpm-workspace.yaml',
  '.pnpmfile.cjs',
  '.pnpmfile.mjs',
])
const MANIFESTS: ReadonlySet<string> = new Set(['package.json', 'package.json5', 'package.yaml'])

/**
 * The key of a project's packages: hash of lock files, package.json and settings of the folders concerned, command,
 * working folder, engine, architecture, and of variables that steer package managers. Where the project's own files
 * take part in the installation, it is the key of this owner alone and of all these files, since they may do anything.
 */
export async function packagesPlan(options: PackagesOptions): Promise<PackagesPlan> {
  const { folder, packages, installCommand, workingDir, engine, owner, isOwnCommand } = options
  const hash = createHash('sha256')
  const add = (...parts: string[]) => hash.update(`${JSON.stringify(parts)}\n`)
  add('4', installCommand, workingDir, engine, process.arch)
  const files = await decidingFiles(options)
  const mentioned = new Set<string>()
  let usesOwnFiles =
    isOwnCommand || (await bringsPackages(packages)) || (await hasFilesForPackages(options))
  for (const [path, bytes] of files) {
    add(path, sha256Of(bytes))
    const text = bytes.toString()
    usesOwnFiles ||= await usesOwn(join(folder, path), text, packages)
    for (const [, variable = ''] of text.matchAll(/\$\{?(\w+)/g)) mentioned.add(variable)
  }
  const deciding = Object.entries(options.environment)
    .filter(([name]) => STEERING.test(name) || mentioned.has(name))
    .sort(([one], [other]) => (one < other ? -1 : 1))
  for (const [name, value] of deciding) {
    add('variable', name, value)
    usesOwnFiles ||= await namesFileUpward(options, value)
  }
  if (!usesOwnFiles) {
    return { key: hash.digest('hex'), files, environment: Object.fromEntries(deciding) }
  }
  add('owner', owner)
  await addOwnFiles(folder, add)
  return { key: hash.digest('hex'), environment: options.environment }
}

/** Names of variables that package managers, and what packages run when they are installed, listen to. */
const STEERING =
  /^(?:(?:npm|yarn|pnpm|bun|corepack|node|git|ssl_cert|puppeteer|cypress|electron|sentrycli)_|(?:https?|no|all)_proxy$|husky$)/i

/** Lock files and settings of the working folder and of those that it is in, since managers look upward. */
async function decidingFiles({ folder, workingDir, packages }: PackagesOptions) {
  const variables = packages === undefined ? [] : (VARIABLE_FILES[packages.tool] ?? [])
  const names = [...SETTINGS_FILES, ...variables, ...(packages?.lockFiles ?? [])]
  const files = new Map<string, Buffer>()
  for (const place of new Set(foldersUpward(folder, workingDir))) {
    for (const name of names) {
      const bytes = await readFile(join(place, name)).catch(() => undefined)
      if (bytes !== undefined) files.set(join(relative(folder, place), name), bytes)
    }
  }
  return files
}

/** Yarn's packages that lie in the project. */
async function bringsPackages(packages: ProjectPackages | undefined): Promise<boolean> {
  return packages?.tool === 'yarn' && exists(join(packages.folder, '.yarn/cache'))
}

/** Files of a project that packages read when they are installed, for code generation or settings. */
const FILES_FOR_PACKAGES = [
  'prisma',
  'schema.prisma',
  'prisma.config.ts',
  '.puppeteerrc',
  '.puppeteerrc.cjs',
  '.puppeteerrc.js',
  '.puppeteerrc.json',
  '.puppeteerrc.yaml',
  'puppeteer.config.cjs',
  'puppeteer.config.js',
  '.sentryclirc',
]

async function hasFilesForPackages({ folder, workingDir }: PackagesOptions): Promise<boolean> {
  for (const place of foldersUpward(folder, workingDir)) {
    for (const name of FILES_FOR_PACKAGES) if (await exists(join(place, name))) return true
  }
  return false
}

const LIFE_CYCLE = ['preinstall', 'install', 'postinstall', 'preprepare', 'prepare', 'postprepare']
/** Settings that name programs, or files of the project. */
const NAMES_OWN =
  /^\s*"?(?:yarnPath|yarn-path|plugins|script-shell|scriptShell|shell|node-options|nodeOptions|git|globalPnpmfile|pnpmfile|injectEnvironmentFiles)"?\s*[:= ]/im
/** What a lock file or a manifest says of packages in the project; Yarn's own patches are not. */
const IN_PROJECT = /["'@\s+](?:(?:file|link|portal):[^\s"]|patch:(?!.*builtin<))/
/** Fields of a manifest with packages and their versions. */
const VERSIONS = [
  'dependencies',
  'devDependencies',
  'optionalDependencies',
  'resolutions',
  'overrides',
  'pnpm',
]
/** A path in the place of a version. */
const BY_PATH = /:"(?:\.{0,2}\/|~\/)|:"(?!https?:)[^"]*\.(?:tgz|tar|tar\.gz)"/

/** Whether installing runs, or takes in, files of the project itself. */
async function usesOwn(
  path: string,
  text: string,
  packages: ProjectPackages | undefined,
): Promise<boolean> {
  const name = path.slice(path.lastIndexOf('/') + 1)
  if (PROGRAMS.has(name)) return true
  if (packages?.lockFiles.includes(name) === true) return IN_PROJECT.test(text)
  if (!MANIFESTS.has(name)) return NAMES_OWN.test(text) || namesFile(path, text)
  try {
    return manifestUsesOwn(JSON.parse(text) as Manifest)
  } catch {
    return true
  }
}

function manifestUsesOwn(manifest: Manifest): boolean {
  const { scripts = {}, workspaces, ...rest } = manifest
  if (workspaces !== undefined || LIFE_CYCLE.some((one) => Object.hasOwn(scripts, one))) return true
  if (BY_PATH.test(JSON.stringify(VERSIONS.map((one) => rest[one])))) return true
  return /"(?:file|link|portal|patch|workspace):|"patchedDependencies"/.test(JSON.stringify(rest))
}

/** Whether a setting is a path of the project, such as that of certificates or of packages without a network. */
async function namesFile(path: string, text: string): Promise<boolean> {
  const folder = path.slice(0, path.lastIndexOf('/'))
  const candidates = new Set(
    text.split(/[\s"'`=,;[\]{}()]+|:(?!\/\/)/).filter((one) => /\w/.test(one)),
  )
  for (const candidate of candidates) if (await exists(join(folder, candidate))) return true
  return false
}

async function namesFileUpward({ folder, workingDir }: PackagesOptions, text: string) {
  for (const place of foldersUpward(folder, workingDir)) {
    if (await namesFile(join(place, 'value'), text)) return true
  }
  return false
}

/** All files of the project that are no packages, in the order of their paths. */
async function addOwnFiles(folder: string, add: (...parts: string[]) => Hash): Promise<void> {
  const paths: string[] = []
  const waiting = ['']
  for (let inside = waiting.pop(); inside !== undefined; inside = waiting.pop()) {
    for await (const entry of await opendir(join(folder, inside))) {
      const path = join(inside, entry.name)
      if (entry.isDirectory() && !NOT_OWN.has(entry.name)) waiting.push(path)
      else if (entry.isFile() || entry.isSymbolicLink()) paths.push(path)
    }
  }
  for (const path of paths.sort()) {
    const target = await readlink(join(folder, path)).catch(() => undefined)
    if (target === undefined) add('file', path, await sha256OfFile(join(folder, path)))
    else add('link', path, target)
  }
}

const NOT_OWN: ReadonlySet<string> = new Set(['node_modules', '.git'])

const sha256Of = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

async function sha256OfFile(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}

interface Manifest extends Record<string, unknown> {
  scripts?: Record<string, string>
  workspaces?: unknown
}
