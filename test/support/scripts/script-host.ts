// The ScriptHost of tests: the sandbox, the system's Chromium, and a runtime made of this project's own Node.js and
// development packages, without an installation.
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createSandbox } from '../../../src/sandbox/sandbox.ts'
import type { ScriptIsolation } from '../../../src/sandbox/request.ts'
import type { ScriptHost } from '../../../src/scripts/host.ts'
import { INSTALLED_FILE, openToolchains, toolFolder } from '../../../src/scripts/toolchains.ts'
import { temporaryFolder } from '../temporary-folder.ts'

const MODULES = fileURLToPath(new URL('../../../node_modules', import.meta.url))

/** Toolchains with one runtime of that name. */
export function runtimeFolder(name = '2026.04'): string {
  const tools = join(temporaryFolder(), 'tools')
  const own = toolFolder(tools, 'runtime', name)
  mkdirSync(own, { recursive: true })
  symlinkSync(process.execPath, join(own, 'node'))
  symlinkSync(MODULES, join(own, 'node_modules'))
  writeFileSync(join(own, INSTALLED_FILE), JSON.stringify({ program: 'node', missing: [] }))
  return tools
}

/** A host; `blocked` networks apply in the sandbox as well. */
export function testScriptHost(
  recommendations: {
    tools?: string
    blocked?: string[]
    chromiumPath?: string
    isolation?: ScriptIsolation
    /** A separate compile cache: tests neither share it nor wait for it. */
    compilesAnew?: boolean
  } = {},
): ScriptHost {
  const tools = recommendations.tools ?? runtimeFolder()
  const sandbox = createSandbox({
    network: { blocked: recommendations.blocked ?? [], allowed: [] },
    isolation: recommendations.isolation ?? 'best',
    // Several test processes run at the same time, and the end of a run kills all processes of its user.
    firstUserId: 40_000 + (process.pid % 80) * 256,
  })
  const cacheFolder = join(temporaryFolder(), 'cache')
  if (recommendations.compilesAnew !== true) shareCompiledCode(cacheFolder)
  return {
    sandbox: () => Promise.resolve(sandbox),
    tools: openToolchains(tools),
    chromiumPath: recommendations.chromiumPath,
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
