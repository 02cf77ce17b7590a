// Tries the sandbox once, with a minimal shell script, so that an operator learns which layers are enforced before
// user code runs.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type MissingRequirement,
  missingRequirementOf,
  requirementText,
  missingTracing,
  recommendationsOf,
} from './requirements.ts'
import type { SandboxLayers, Sandbox } from './request.ts'
import { diskProblem } from '../process/disk-problem.ts'
import { makeLockedFolder } from './locked-folder.ts'
import { removeTree } from './remove-tree.ts'

const MEBIBYTE = 1_048_576
const LIMITS = {
  wallMs: 10_000,
  cpuMs: 10_000,
  memoryBytes: 256 * MEBIBYTE,
  processes: 16,
  outputBytes: MEBIBYTE,
  diskBytes: MEBIBYTE,
  fileBytes: MEBIBYTE,
  openFiles: 256,
}

const SCRIPT = 'unshare --user --net --pid --fork true 2>/dev/null && echo namespaces; ./program'

export interface TrialSettings {
  /** The folder that runs have theirs in. */
  root: string
  /** A browser is installed, which wants more of the sandbox. */
  hasChromium: boolean
}

export interface SandboxTrial {
  /** The layers that are enforced; absent where no user code runs. */
  layers?: SandboxLayers
  /** User code gets user namespaces, which Chromium's own sandbox is made of. */
  namespaces: boolean
  /** Missing requirements and recommendations, a sentence each with its fix. */
  missing: string[]
  /** The same in parts: what user code cannot run without, and what is recommended. */
  needs: MissingRequirement[]
  recommendations: MissingRequirement[]
  /** It could not be tried, since its folder cannot be written. */
  isDiskAtFault?: boolean
}

/** Runs the trial in a folder of its own below `root`, until `signal` is aborted. Never rejects. */
export async function trySandbox(
  sandbox: Sandbox,
  settings: TrialSettings,
  signal = new AbortController().signal,
): Promise<SandboxTrial> {
  const found = await tried(sandbox, settings, signal).catch((error: Error) => ({
    ...nothingBut(error.message),
    isDiskAtFault: diskProblem(error, settings.root) !== undefined,
  }))
  return { ...found, missing: [...found.needs, ...found.recommendations].map(requirementText) }
}

type Found = Omit<SandboxTrial, 'missing'>

function nothingBut(what: string): Found {
  return { namespaces: false, needs: [{ what }], recommendations: [] }
}

async function tried(
  sandbox: Sandbox,
  { root, hasChromium }: TrialSettings,
  signal: AbortSignal,
): Promise<Found> {
  const { path: folder, release } = await makeLockedFolder(root, 'sandbox-')
  try {
    // A file system may forbid programs.
    await writeFile(join(folder, 'program'), '#!/bin/sh\necho executes\n', { mode: 0o755 })
    const order = { command: '/bin/sh', args: ['-c', SCRIPT], folder, limits: LIMITS }
    const { layers, tail, problem } = await sandbox.run(order, signal)
    if (layers === undefined) {
      return nothingBut(`user code cannot be run: ${problem ?? 'it did not start'}`)
    }
    const namespaces = tail.stdout.includes('namespaces')
    const canExecute = tail.stdout.includes('executes')
    const scope = await readFile('/proc/sys/kernel/yama/ptrace_scope', 'latin1').catch(() => '')
    const needs = [
      missingRequirementOf(layers),
      layers.network ? missingTracing(scope) : undefined,
    ].filter((one) => one !== undefined)
    const recommendations = recommendationsOf({ layers, namespaces, hasChromium, root, canExecute })
    return { layers, namespaces, needs, recommendations }
  } finally {
    await removeTree(folder).finally(release)
  }
}
