// Tries the sandbox once, with a minimal shell script, so that an operator learns which layers are enforced before
// user code runs.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Sandbox } from './sandbox.ts'
import {
  type MissingRequirement,
  missingRequirementOf,
  requirementText,
  missingTracing,
  recommendationsOf,
} from './requirements.ts'
import type { SandboxLayers } from './request.ts'
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

/** Says what it finds. */
const SCRIPT = 'unshare --user --net --pid --fork true 2>/dev/null && echo namespaces; ./program'

/** Where it is tried, and what for. */
export interface TrialSettings {
  /** The folder that runs have theirs in. */
  root: string
  /** A browser is installed, which wants more of the sandbox. */
  hasChromium: boolean
}

/** What the trial showed. */
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
  try {
    const folder = await makeLockedFolder(settings.root, 'sandbox-')
    try {
      return await trialIn(folder.path, sandbox, settings, signal)
    } finally {
      await removeTree(folder.path).finally(() => folder.release())
    }
  } catch (error) {
    const trial = trialOf({ namespaces: false }, [{ what: (error as Error).message }], [])
    return { ...trial, isDiskAtFault: diskProblem(error, settings.root) !== undefined }
  }
}

async function trialIn(
  folder: string,
  sandbox: Sandbox,
  { root, hasChromium }: TrialSettings,
  signal: AbortSignal,
): Promise<SandboxTrial> {
  // A file system may forbid programs.
  await writeFile(join(folder, 'program'), '#!/bin/sh\necho executes\n', { mode: 0o755 })
  const args = ['-c', SCRIPT]
  const order = { command: '/bin/sh', args, folder, limits: LIMITS }
  const { layers, tail, problem } = await sandbox.run(order, signal).ended
  const namespaces = tail.stdout.includes('namespaces')
  if (layers === undefined) {
    const what = `user code cannot be run: ${problem ?? 'it did not start'}`
    return trialOf({ namespaces }, [{ what }], [])
  }
  const canExecute = tail.stdout.includes('executes')
  const scope = await readFile('/proc/sys/kernel/yama/ptrace_scope', 'latin1').catch(() => '')
  const missing = [missingRequirementOf(layers), layers.network ? missingTracing(scope) : undefined]
  const recommendations = recommendationsOf({ layers, namespaces, hasChromium, root, canExecute })
  const needs = missing.filter((one) => one !== undefined)
  return trialOf({ layers, namespaces }, needs, recommendations)
}

function trialOf(
  found: Pick<SandboxTrial, 'layers' | 'namespaces'>,
  needs: MissingRequirement[],
  recommendations: MissingRequirement[],
): SandboxTrial {
  return {
    ...found,
    needs,
    recommendations,
    missing: [...needs, ...recommendations].map(requirementText),
  }
}
