// Installs an engine, a package manager or a runtime with npm: into a folder next to its place, which is moved
// there when it is complete, so that a killed installation leaves nothing that looks finished.
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { ENGINES, PACKAGE_MANAGERS, RUNTIMES } from '../contract/runtimes.ts'
import type { Environment } from '../process/env.ts'
import { FolderLockedError, lockFolder } from '../process/folder-lock.ts'
import { makeFolder } from '../process/make-folder.ts'
import {
  INSTALLED_FILE,
  type InstalledTool,
  knownTools,
  type ToolKind,
  toolFolder,
} from './toolchains.ts'

export interface ToolOrder {
  kind: ToolKind
  name: string
  folder: string
  env: Environment
  signal: AbortSignal
  timeoutMs?: number
}

/** It is installed, or a sentence says why not and what fixes it. */
export type ToolOutcome = { tool: InstalledTool } | { problem: string }

/** One slow registry, and close to a gigabyte of a runtime. */
const INSTALL_MS_MAX = 900_000
/** Of what npm complains about. */
const COMPLAINT_CHARS_MAX = 4000

interface Recipe {
  manifest: Record<string, unknown>
  /** The program, from the folder. */
  program: string
  optional: readonly string[]
}

/** Installs it anew, whatever is there. Rejects only with what the signal was aborted with. */
export async function installTool(order: ToolOrder): Promise<ToolOutcome> {
  const { kind, name, folder, signal } = order
  const known = knownTools(kind)
  if (!known.includes(name)) {
    return { problem: `unknown name ${JSON.stringify(name)}; known are ${known.join(', ')}` }
  }
  const recipe = await RECIPES[kind](name)
  const place = toolFolder(folder, kind, name)
  try {
    await makeFolder(dirname(place), 0o777)
    const lock = await lockFolder(dirname(place), `${name}.lock`, () => undefined)
    try {
      await removeDrafts(place)
      return await installInto(order, recipe, place)
    } finally {
      await removeDrafts(place).catch(() => undefined)
      lock.release()
    }
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof FolderLockedError) {
      return { problem: `${name} is being installed: ${error.message}` }
    }
    return { problem: `${place} cannot be written: ${(error as Error).message}` }
  }
}

const DRAFT = '.draft-'

/** Removes unfinished installations; only the holder of the lock may call it. */
async function removeDrafts(place: string): Promise<void> {
  const prefix = basename(place) + DRAFT
  const found = await readdir(dirname(place))
  for (const name of found.filter((one) => one.startsWith(prefix))) {
    await rm(join(dirname(place), name), { recursive: true, force: true })
  }
}

async function installInto(order: ToolOrder, recipe: Recipe, place: string): Promise<ToolOutcome> {
  const { name, signal } = order
  const { program } = recipe
  const draft = `${place}${DRAFT}${randomUUID()}`
  await mkdir(draft)
  await writeFile(join(draft, 'package.json'), JSON.stringify(recipe.manifest, null, 2))
  const complaint = await runNpm(order, draft)
  signal.throwIfAborted()
  if (complaint !== undefined) return { problem: complaint }
  if (!existsSync(join(draft, program))) {
    return { problem: `npm did not install ${program}; is the registry complete?` }
  }
  // Headers for building native packages: a third of an engine, and of no use without a compiler.
  await rm(join(draft, dirname(program), '../include'), { recursive: true, force: true })
  const missing = recipe.optional.filter((one) => !existsSync(join(draft, 'node_modules', one)))
  await writeFile(join(draft, INSTALLED_FILE), JSON.stringify({ program, missing }))
  await moveIntoPlace(draft, place)
  return { tool: { name, program: join(place, program), folder: place, missing } }
}

/** What was there goes aside first: taking it away file by file would leave runs without it for seconds. */
async function moveIntoPlace(draft: string, place: string): Promise<void> {
  const old = `${place}${DRAFT}${randomUUID()}`
  await rename(place, old).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
  })
  await rename(draft, place)
  await rm(old, { recursive: true, force: true })
}

const RECIPES: Readonly<Record<ToolKind, (name: string) => Promise<Recipe> | Recipe>> = {
  async engine(name) {
    const { arm64, x64, x64WithoutAvx2 = x64, binary } = ENGINES.get(name)!
    const spec = isArm ? arm64 : (await hasAvx2()) ? x64 : x64WithoutAvx2
    return {
      manifest: { private: true, dependencies: { engine: `npm:${spec}` } },
      program: `node_modules/engine/${binary}`,
      optional: [],
    }
  },
  /** They bring all they need in one package; their programs keep their own names. */
  'package-manager': (name) => ({
    manifest: { private: true, dependencies: { manager: `npm:${PACKAGE_MANAGERS.get(name)}` } },
    program: `node_modules/.bin/${name.split('@')[0]}`,
    optional: [],
  }),
  runtime(name) {
    const { nodePackages, packages, optionalPackages, overrides } = RUNTIMES.get(name)!
    const node = isArm ? nodePackages.arm64 : nodePackages.x64
    return {
      manifest: {
        private: true,
        dependencies: { ...packages, 'runtime-node': `npm:${node}` },
        optionalDependencies: optionalPackages,
        overrides,
      },
      program: 'node_modules/runtime-node/bin/node',
      optional: Object.keys(optionalPackages),
    }
  },
}

const isArm = process.arch === 'arm64'

async function hasAvx2(): Promise<boolean> {
  const facts = await readFile('/proc/cpuinfo', 'utf8').catch(() => 'avx2')
  return /\bavx2\b/.test(facts)
}

/** Environment for npm: its own settings and the proxies, nothing of the agent's. */
const NPM_VARIABLES =
  /^(?:PATH|HOME|LANG|LC_\w+|TMPDIR|npm_config_\w+|NPM_CONFIG_\w+|https?_proxy|HTTPS?_PROXY|no_proxy|NO_PROXY|NODE_EXTRA_CA_CERTS|SSL_CERT_\w+)$/

/** Undefined when npm has done it, else the message for the user. */
function runNpm(order: ToolOrder, folder: string): Promise<string | undefined> {
  const { env, signal, timeoutMs = INSTALL_MS_MAX } = order
  const deadline = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
  // Scripts of packages are not run: nothing of a runtime needs one, and browsers are not downloaded.
  const flags = '--no-audit --no-fund --ignore-scripts --no-package-lock --loglevel=error'
  return new Promise((resolve) => {
    const npm = spawn('npm', ['install', ...flags.split(' ')], {
      cwd: folder,
      env: {
        ...Object.fromEntries(Object.entries(env).filter(([name]) => NPM_VARIABLES.test(name))),
        PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD: '1',
      },
      stdio: ['ignore', 'ignore', 'pipe'],
      signal: deadline,
      killSignal: 'SIGKILL',
    })
    let complaint = ''
    npm.stderr.setEncoding('utf8')
    npm.stderr.on('data', (text: string) => {
      complaint = (complaint + text).slice(-COMPLAINT_CHARS_MAX)
    })
    npm.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') resolve('npm was not found in PATH; install it, or set PATH')
      else if (deadline.aborted) resolve(`npm did not end within ${timeoutMs / 1000} s`)
      else resolve(`npm cannot be run: ${error.message}`)
    })
    npm.on('close', (code) => {
      resolve(code === 0 ? undefined : `npm failed (exit code ${code}):\n${complaint.trimEnd()}`)
    })
  })
}
