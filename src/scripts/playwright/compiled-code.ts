// Compiled code of Playwright: compiling takes longer than the rest of a start. It is
// made once, by a run of its own in which none of the project's own code takes part, and shared with later runs, which
// may read it and cannot write to it.
import { createHash } from 'node:crypto'
import { mkdir, opendir, realpath, rename, stat, symlink, writeFile } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { LIMITS } from '../../contract/versions.ts'
import type { SandboxLimits } from '../../sandbox/request.ts'
import { isOutOfReach, isReachable, ownTree } from '../../sandbox/trees.ts'
import { removeTree } from '../../sandbox/remove-tree.ts'
import type { ScriptContext } from '../context.ts'
import type { ScriptHost } from '../host.ts'
import { TreeCache } from '../tree-cache.ts'

export interface CodeToCompile {
  /** The folder `node_modules` that has the package @playwright/test. */
  modules: string
  /** Node.js, or Bun. */
  program: string
  isBun: boolean
  /** Decides on the packages, where they lie in the run's folder. */
  packagesKey?: string | undefined
}

/** The run that wants it. */
export interface CompilingRun {
  host: Pick<ScriptHost, 'sandbox' | 'cacheFolder'>
  context: Pick<ScriptContext, 'signal'>
  folder: string
  /** Folders outside of the run's that it must be able to read. */
  readable: readonly string[]
  limits: SandboxLimits
}

export interface CompiledCode {
  environment: Record<string, string>
  readable: string[]
}

const NONE: CompiledCode = { environment: {}, readable: [] }
const CLI = '@playwright/test/cli.js'
const WALL_MS_MAX = 60_000
/** After a try that was cut short, runs go without for this long. */
const AGAIN_MS = 600_000

/** When a try was cut short, by key. */
const cutShort = new Map<string, number>()

/** Rejects with the signal's reason alone: without it runs are slower, and nothing else. */
export async function compiledCode(code: CodeToCompile, run: CompilingRun): Promise<CompiledCode> {
  try {
    const key = (await isOutOfReach()) ? await keyOf(code, run.folder) : undefined
    if (key === undefined) return NONE
    const root = join(run.host.cacheFolder, 'compiled')
    const cache = new TreeCache<null>(root, LIMITS.compiledCacheBytesMax)
    const make = (content: string) =>
      compileInto(content, code, run, () => cutShort.set(key, Date.now()))
    const mayTry = Date.now() - (cutShort.get(key) ?? 0) >= AGAIN_MS
    const tree = (await cache.find(key)) ?? (mayTry ? await cache.store(key, make) : undefined)
    if (tree === undefined || tree.bytes === 0 || !(await isReachable(tree.folder))) return NONE
    return { environment: { [variableOf(code)]: tree.folder }, readable: [tree.folder] }
  } catch {
    run.context.signal.throwIfAborted()
    return NONE
  }
}

const variableOf = ({ isBun }: CodeToCompile) =>
  isBun ? 'BUN_RUNTIME_TRANSPILER_CACHE_PATH' : 'NODE_COMPILE_CACHE'

/** Bun knows code by its content; Node.js by its path, which must not be the run's own. */
async function keyOf(code: CodeToCompile, folder: string): Promise<string | undefined> {
  const { modules, program, isBun, packagesKey } = code
  const path = await realpath(join(modules, CLI))
  const isOwn = path.startsWith((await realpath(folder)) + sep)
  const packages = isBun ? packagesKey : isOwn ? undefined : path
  if (packages === undefined) return undefined
  const engine = await stat(program)
  const parts = ['1', packages, program, engine.size, engine.mtimeMs, process.arch]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex')
}

/** A first test, which does what tests begin with; there is no such browser. */
const FIRST_TEST = `import { chromium, expect, test } from '@playwright/test'
test('loads what tests need', async () => {
  const browser = await chromium.launch({ executablePath: '/nonexistent' }).catch(() => null)
  expect(browser).toBeNull()
})
`

async function compileInto(
  content: string,
  code: CodeToCompile,
  { host, context, folder, readable, limits }: CompilingRun,
  onCutShort: () => void,
) {
  const { modules, program, isBun } = code
  const sandbox = await host.sandbox()
  const at = join(folder, '.vedette', 'compiling')
  const made = join(at, 'made')
  await mkdir(made, { recursive: true })
  await symlink(modules, join(at, 'node_modules'))
  await writeFile(join(at, 'first.spec.ts'), FIRST_TEST)
  await writeFile(join(at, 'playwright.config.js'), `module.exports = { reporter: 'null' }\n`)
  const { outcome } = await sandbox.run(
    {
      command: program,
      args: [...(isBun ? ['--no-install'] : []), join(modules, CLI), 'test'],
      folder,
      cwd: at,
      readable,
      environment: { [variableOf(code)]: made },
      limits: { ...limits, wallMs: WALL_MS_MAX },
      ask: { signal: 'SIGTERM', to: 'group', graceMs: 500 },
    },
    context.signal,
  )
  context.signal.throwIfAborted()
  // A machine that is busy for a minute, say: that is not for ever.
  if (outcome !== 'exited') {
    onCutShort()
    await removeTree(at)
    throw new Error(`the code could not be compiled: ${outcome}`)
  }
  const { bytes, leadsOut } = await ownTree(made)
  if (!leadsOut) await (isBun ? rename(made, content) : forAllUsers(made, content, sandbox.userIds))
  await removeTree(at)
  // Nothing came of it: known from now on, too.
  return { bytes: leadsOut ? 0 : bytes, about: null }
}

/** Node.js looks in a folder that is named after its version and its user: any run may have any of them. */
async function forAllUsers(
  made: string,
  content: string,
  userIds: Iterable<number>,
): Promise<void> {
  for await (const { name } of await opendir(made)) {
    const version = /^(v.+)-\d+$/.exec(name)?.[1]
    if (version === undefined) continue
    await rename(join(made, name), join(content, version))
    for (const userId of userIds) await symlink(version, join(content, `${version}-${userId}`))
  }
}
