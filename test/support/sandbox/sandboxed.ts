// Runs a command in a sandbox of the test's own process, with generous limits.
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createSandbox } from '../../../src/sandbox/sandbox.ts'
import type { SandboxEnd, SandboxLimits, SandboxRequest } from '../../../src/sandbox/request.ts'
import { removeTree } from '../../../src/sandbox/remove-tree.ts'

const MEBIBYTE = 1_048_576

/** Enough for a browser. */
export const ROOMY: SandboxLimits = {
  wallMs: 240_000,
  cpuMs: 60_000,
  memoryBytes: 1024 * MEBIBYTE,
  processes: 100,
  outputBytes: 4 * MEBIBYTE,
  diskBytes: 512 * MEBIBYTE,
  fileBytes: 128 * MEBIBYTE,
  openFiles: 4096,
}

/** Overrides of a test. */
export type SandboxTestOptions = Omit<Partial<SandboxRequest>, 'limits' | 'args' | 'folder'> & {
  args: (folder: string) => string[] | Promise<string[]>
  limits?: Partial<SandboxLimits>
  blocked?: string[]
  signal?: AbortSignal
  /** Called with the folder before it is removed. */
  inspect?: (folder: string) => void
}

/** Runs it to its end and removes its folder. */
export async function sandboxed(
  options: SandboxTestOptions,
): Promise<SandboxEnd & { folder: string }> {
  const { args, limits, blocked = [], signal, inspect, ...rest } = options
  const folder = mkdtempSync(join(tmpdir(), 'vedette-sandboxed-'))
  const network = { blocked, allowed: [] }
  const sandbox = createSandbox({ network, isolation: 'require', firstUserId: 64_500 })
  const order: SandboxRequest = {
    command: process.execPath,
    ...rest,
    args: await args(folder),
    folder,
    limits: { ...ROOMY, ...limits },
  }
  const end = await sandbox.run(order, signal ?? new AbortController().signal)
  sandbox.close()
  inspect?.(folder)
  await removeTree(folder)
  return { ...end, folder }
}
