// Makes the ground that user code stands on, as the settings say. What it needs is loaded at its first
// run: an agent for uptime checks alone must not carry it in its memory.
import { join } from 'node:path'
import type { BundleFetcher } from '../agent/platform/bundle-fetcher.ts'
import type { AgentConfig } from '../agent/config.ts'
import type { PlatformLink } from '../agent/platform/link.ts'
import { runsCacheFolder } from '../scripts/tools-folder.ts'
import type { Log } from '../process/log.ts'
import { makeFolder } from '../process/make-folder.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { SandboxTrial } from '../sandbox/trial.ts'
import type { ScriptHost } from '../scripts/host.ts'
import { openToolchains } from '../scripts/toolchains.ts'

/** What an agent adds to it. */
export interface GroundSurroundings {
  /** Leads to its platform, where it has one. */
  link?: PlatformLink
  /** Is told what holds user code; without one nothing is tried. */
  log?: Log
}

/** The ground for runs of this agent. */
export function scriptHost(
  config: AgentConfig,
  { link, log }: GroundSurroundings = {},
): ScriptHost {
  let sandbox: Promise<Sandbox> | undefined
  let fetcher: Promise<BundleFetcher> | undefined
  let trial: SandboxTrial | undefined
  const cacheFolder = runsCacheFolder(config.dataDir, config.toolsDir)
  const tools = openToolchains(config.toolsDir)
  const made = () => (sandbox ??= makeSandbox(config, log, (found) => (trial = found)))
  return {
    sandbox: made,
    tools,
    chromiumPath: config.chromiumPath,
    cacheFolder,
    ...(link !== undefined && {
      async bundle(sha256, signal) {
        fetcher ??= makeFetcher(link, join(cacheFolder, 'bundle-files'))
        return (await fetcher).fetch(sha256, signal)
      },
    }),
    close: () => void sandbox?.then((one) => one.close()),
    async prepare() {
      // An agent without any of them runs uptime checks alone: it stays as small as it is.
      const installed = await Promise.all([tools.installed('engine'), tools.installed('runtime')])
      if (installed.flat().length > 0) await made().catch(() => {})
    },
    warnings: () => trial?.missing ?? [],
    layers: () => trial?.layers && { ...trial.layers, userNamespaces: trial.namespaces },
    ownProjects: config.monitorsFile !== undefined,
  }
}

async function makeFetcher(link: PlatformLink, folder: string): Promise<BundleFetcher> {
  const { createBundleFetcher } = await import('../agent/platform/bundle-fetcher.ts')
  return createBundleFetcher({ link, folder })
}

/** With a log, the sandbox is tried beside the first run, and what holds in it is said once. */
async function makeSandbox(
  config: AgentConfig,
  log: Log | undefined,
  tried: (trial: SandboxTrial) => void,
): Promise<Sandbox> {
  const { createSandbox } = await import('../sandbox/sandbox.ts')
  const sandbox = createSandbox({
    network: { blocked: config.blockedNetworks, allowed: config.allowedNetworks },
    isolation: config.scriptIsolation,
    firstUserId: config.scriptUserId,
  })
  if (log !== undefined) void sayTrial(sandbox, config, log).then(tried)
  return sandbox
}

async function sayTrial(sandbox: Sandbox, config: AgentConfig, log: Log): Promise<SandboxTrial> {
  const { trySandbox } = await import('../sandbox/trial.ts')
  const { findChromium } = await import('../scripts/chromium.ts')
  const { chromiumPath, workRoot } = config
  // Where it cannot be made, the trial says so.
  await makeFolder(workRoot, 0o777).catch(() => {})
  const hasChromium = (await findChromium(chromiumPath)) !== undefined
  const trial = await trySandbox(sandbox, { root: workRoot, hasChromium })
  // What is wrong with the folder is said where it is watched, and no longer than it lasts.
  if (trial.isDiskAtFault === true) return { ...trial, missing: [] }
  const { layers, namespaces } = trial
  if (layers !== undefined) log.info({ ...layers, userNamespaces: namespaces }, 'user code is held')
  for (const lack of trial.missing) log.warn(lack)
  return trial
}
