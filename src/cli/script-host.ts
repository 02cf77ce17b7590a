// Creates the ScriptHost of the settings. The modules that it needs are loaded at the first run: an agent for
// uptime checks alone must not hold them in memory.
import { join } from 'node:path'
import type { BundleFetcher } from '../agent/platform/bundle-fetcher.ts'
import type { AgentConfig } from '../agent/config.ts'
import type { PlatformLink } from '../agent/platform/link.ts'
import type { Log } from '../process/log.ts'
import { makeFolder } from '../process/make-folder.ts'
import type { SandboxTrial } from '../sandbox/trial.ts'
import type { ScriptHost } from '../scripts/host.ts'
import { openToolchains, runsCacheFolder } from '../scripts/toolchains.ts'
import type { Sandbox } from '../sandbox/request.ts'

export interface ScriptHostContext {
  /** The connection to the platform, if any. */
  link?: PlatformLink
  /** Receives the state of the sandbox; without a log the sandbox is not probed. */
  log?: Log
}

/** Creates the host for the scripts of this agent. */
export function scriptHost(config: AgentConfig, { link, log }: ScriptHostContext = {}): ScriptHost {
  let sandbox: Promise<Sandbox> | undefined
  let fetcher: Promise<BundleFetcher> | undefined
  let trial: SandboxTrial | undefined
  const cacheFolder = runsCacheFolder(config.dataDir, config.toolsDir)
  const tools = openToolchains(config.toolsDir, config.image)
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
      await warnOfChromium(config, log)
      // An agent without engines and runtimes runs uptime checks alone and needs no sandbox.
      const installed = await Promise.all([tools.installed('engine'), tools.installed('runtime')])
      if (installed.flat().length > 0) await made().catch(() => {})
    },
    warnings: () => trial?.missing ?? [],
    layers: () => trial?.layers && { ...trial.layers, userNamespaces: trial.namespaces },
    ownProjects: config.monitorsFile !== undefined,
  }
}

/** The browser that the settings name may be missing; without a name, runs that need one report it. */
async function warnOfChromium({ chromiumPath }: AgentConfig, log: Log | undefined): Promise<void> {
  if (chromiumPath === undefined) return
  const { CHROMIUM_ADVICE, findChromium } = await import('../scripts/chromium.ts')
  if ((await findChromium(chromiumPath)) !== undefined) return
  log?.warn(`CHROMIUM_PATH is "${chromiumPath}", which is not a program; ${CHROMIUM_ADVICE}`)
}

async function makeFetcher(link: PlatformLink, folder: string): Promise<BundleFetcher> {
  const { BundleFetcher } = await import('../agent/platform/bundle-fetcher.ts')
  return new BundleFetcher({ link, folder })
}

/** With a log, the sandbox is probed alongside the first run, and its layers are logged once. */
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
  if (log !== undefined) void logTrial(sandbox, config, log).then(tried)
  return sandbox
}

async function logTrial(sandbox: Sandbox, config: AgentConfig, log: Log): Promise<SandboxTrial> {
  const { trySandbox } = await import('../sandbox/trial.ts')
  const { findChromium } = await import('../scripts/chromium.ts')
  const { chromiumPath, workRoot } = config
  // If the folder cannot be created, the trial reports it.
  await makeFolder(workRoot, 0o777).catch(() => {})
  const hasChromium = (await findChromium(chromiumPath)) !== undefined
  const trial = await trySandbox(sandbox, { root: workRoot, hasChromium })
  // Errors of the folder are reported by its watcher, and only while they last.
  if (trial.isDiskAtFault === true) return { ...trial, missing: [] }
  const { layers, namespaces } = trial
  if (layers !== undefined)
    log.info({ ...layers, userNamespaces: namespaces }, 'user code is sandboxed')
  for (const requirement of trial.missing) log.warn(requirement)
  return trial
}
