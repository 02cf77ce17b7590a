// Runs of browser and multistep monitors as in the agent: with deadline, work folder and artifacts.
import { copyFileSync, mkdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { vi } from 'vitest'
import { startAttempt, type RunningAttempt } from '../../../src/agent/run/attempt.ts'
import type { Artifact } from '../../../src/contract/result.ts'
import type { AnyMonitorType } from '../../../src/monitors/monitor.ts'
import type { RunProgress, ScriptHost } from '../../../src/scripts/host.ts'
import type { ScriptObserved } from '../../../src/scripts/observed.ts'
import { testContext, type ContextOptions } from '../monitors/monitor-context.ts'
import { temporaryFolder } from '../temporary-folder.ts'

/** A started run. */
export interface ScriptAttempt extends RunningAttempt {
  /** Its leftovers after the end. */
  workRoot: string
  /** Copies of its artifacts. */
  artifactFolder: string
}

export interface ScriptOptions extends ContextOptions {
  host: ScriptHost | undefined
  /** Its deadline expires when this resolves, independent of the speed of the machine. */
  deadline?: Promise<unknown>
  variables?: Record<string, string>
  /** Receives its progress. */
  progress?: (at: RunProgress) => void
}

/** Starts a run of a monitor of that definition, as its schema completes it. */
export function startScript(
  type: AnyMonitorType,
  definition: Record<string, unknown>,
  options: ScriptOptions,
): ScriptAttempt {
  const about = { id: 'script-1', name: 'A script', checkType: type.checkType }
  const monitor = type.schema.parse({ ...about, ...definition })
  const root = temporaryFolder()
  const [workRoot, artifactFolder] = [join(root, 'work'), join(root, 'artifacts')]
  mkdirSync(artifactFolder)
  const stage = (path: string, { name }: Artifact) => {
    copyFileSync(path, join(artifactFolder, basename(name)))
    return Promise.resolve(undefined)
  }
  const deadlineMs = type.deadlineMs(monitor)
  const timers = vi.spyOn(globalThis, 'setTimeout')
  const running = startAttempt({
    run: type.prepare(monitor),
    monitor,
    overrunMsMax: type.overrunMsMax,
    deadlineMs,
    workRoot,
    care: { files: { stage, bytesMax: () => 1e9 }, scrub: () => Promise.resolve(new Map()) },
    context: {
      dial: testContext(options).dial,
      scripts: options.host,
      variables: options.variables ?? {},
      location: 'home',
      ...(options.progress && { progress: options.progress }),
    },
  })
  const [reachDeadline] = timers.mock.calls.find(([, ms]) => ms === deadlineMs) ?? []
  timers.mockRestore()
  void options.deadline?.then(() => reachDeadline?.())
  return { ...running, workRoot, artifactFolder }
}

/** Runs a monitor to its end. */
export async function runScriptMonitor(
  type: AnyMonitorType,
  definition: Record<string, unknown>,
  options: ScriptOptions,
) {
  const started = startScript(type, definition, options)
  const { observation, artifacts, abandoned } = await started.outcome
  return {
    ...observation,
    observed: observation.observed as unknown as ScriptObserved,
    codes: observation.failures.map(({ code }) => code),
    artifacts: artifacts.map(({ name }) => name),
    abandoned,
    workRoot: started.workRoot,
    artifactFolder: started.artifactFolder,
  }
}
