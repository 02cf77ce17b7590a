// Runs a command in a cage from inside the test, with bounds that leave it room.
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createCage, type CagedEnd, type CageOrder } from '../../../src/sandbox/sandbox.ts'
import type { CageLimits, ScriptIsolation } from '../../../src/sandbox/request.ts'
import { removeTree } from '../../../src/sandbox/remove-tree.ts'

const MEBIBYTE = 1_048_576

/** Room for a browser. */
export const ROOMY: CageLimits = {
  wallMs: 240_000,
  cpuMs: 60_000,
  memoryBytes: 1024 * MEBIBYTE,
  processes: 100,
  outputBytes: 4 * MEBIBYTE,
  diskBytes: 512 * MEBIBYTE,
  fileBytes: 128 * MEBIBYTE,
  openFiles: 4096,
}

/** What a test may want otherwise. */
export type CagedWishes = Omit<Partial<CageOrder>, 'limits' | 'args' | 'folder'> & {
  args: (folder: string) => string[]
  limits?: Partial<CageLimits>
  isolation?: ScriptIsolation
  blocked?: string[]
  signal?: AbortSignal
  /** Called with the folder before it starts. */
  prepare?: (folder: string) => void
  /** Called with the folder before it is removed. */
  inspect?: (folder: string) => void
}

/** Runs it to its end and removes its folder. */
export async function caged(wishes: CagedWishes): Promise<CagedEnd & { folder: string }> {
  const {
    args,
    limits,
    isolation = 'require',
    blocked = [],
    signal,
    prepare,
    inspect,
    ...rest
  } = wishes
  const folder = mkdtempSync(join(tmpdir(), 'vedette-caged-'))
  prepare?.(folder)
  const network = { blocked, allowed: [] }
  const cage = createCage({ network, isolation, firstUserId: 64_500 })
  const order: CageOrder = {
    command: process.execPath,
    ...rest,
    args: args(folder),
    folder,
    limits: { ...ROOMY, ...limits },
  }
  const end = await cage.run(order, signal ?? new AbortController().signal).ended
  cage.close()
  inspect?.(folder)
  await removeTree(folder)
  return { ...end, folder }
}
