// The ScriptHost of tests: the sandbox, the system's Chromium, and a runtime of this project's own packages.
import { cpSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createSandbox } from '../../../src/sandbox/sandbox.ts'
import type { Sandbox, ScriptIsolation } from '../../../src/sandbox/request.ts'
import type { ScriptHost } from '../../../src/scripts/host.ts'
import { INSTALLED_FILE, openToolchains, toolFolder } from '../../../src/scripts/toolchains.ts'
import { temporaryFolder } from '../temporary-folder.ts'

const MODULES = fileURLToPath(new URL('../../../node_modules', import.meta.url))

/** Puts this project's own Node.js into toolchains, as a copy or a link; returns its folder there. */
export function ownNode(
  tools: string,
  kind: 'engine' | 'runtime',
  name: string,
  put: (from: string, to: string) => void = cpSync,
): string {
  const own = toolFolder(tools, kind, name)
  mkdirSync(own, { recursive: true })
  put(process.execPath, join(own, 'node'))
  writeFileSync(join(own, INSTALLED_FILE), JSON.stringify({ program: 'node', missing: [] }))
  return own
}

/** A node_modules with Playwright alone, without links to elsewhere. */
export function copyPlaywright(modules: string): void {
  for (const name of ['@playwright/test', 'playwright', 'playwright-core']) {
    cpSync(join(MODULES, name), join(modules, name), { recursive: true })
  }
}

/** Toolchains with one runtime of that name, whose packages are this project's. */
export function runtimeFolder(name = '2026.04'): string {
  const tools = join(temporaryFolder(), 'tools')
  symlinkSync(MODULES, join(ownNode(tools, 'runtime', name, symlinkSync), 'node_modules'))
  return tools
}

/** A folder with these files. */
export function projectFolder(files: Record<string, string | Buffer>): string {
  const folder = join(temporaryFolder(), 'shop-tests')
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), content)
  }
  return folder
}

/** A host; `blocked` networks apply in the sandbox as well. */
export function testScriptHost({
  tools = runtimeFolder(),
  blocked = [],
  chromiumPath,
  isolation = 'best',
  compilesAnew = false,
  memoryBytes = Infinity,
}: {
  tools?: string
  blocked?: string[]
  chromiumPath?: string
  isolation?: ScriptIsolation
  /** A separate compile cache: tests neither share it nor wait for it. */
  compilesAnew?: boolean
  /** A limit of runs below their own: a machine may need long to hand out much memory. */
  memoryBytes?: number
} = {}): ScriptHost {
  // Several test processes run at the same time, and the end of a run kills all processes of its user.
  const firstUserId = 40_000 + (process.pid % 80) * 256
  const sandbox = createSandbox({ network: { blocked, allowed: [] }, isolation, firstUserId })
  const run: Sandbox['run'] = (order, signal) => {
    const limits = order.limits
    const lower = { ...limits, memoryBytes: Math.min(memoryBytes, limits.memoryBytes) }
    return sandbox.run({ ...order, limits: lower }, signal)
  }
  const cacheFolder = join(temporaryFolder(), 'cache')
  if (!compilesAnew) shareCompiledCode(cacheFolder)
  return {
    sandbox: () => Promise.resolve({ ...sandbox, run }),
    tools: openToolchains(tools),
    chromiumPath,
    cacheFolder,
    close: () => sandbox.close(),
  }
}

function shareCompiledCode(cacheFolder: string): void {
  const shared = join(tmpdir(), `vedette-test-compiled-${process.getuid?.()}`)
  for (const folder of [shared, cacheFolder]) mkdirSync(folder, { recursive: true })
  const own = join(cacheFolder, 'compiled')
  if (!existsSync(own)) symlinkSync(shared, own)
}
