// Makes the ground that people's own code stands on, as the settings say. What it needs is loaded at its first
// run: an agent for uptime checks alone must not carry it in its memory.
import { join } from 'node:path'
import type { BundleFetcher } from '../agent/bundle-fetcher.ts'
import type { AgentConfig } from '../agent/config.ts'
import type { PlatformLink } from '../agent/platform-link.ts'
import { runsCacheFolder } from '../agent/tools-folder.ts'
import type { Cage } from '../monitors/cage.ts'
import type { ScriptGround } from '../monitors/script-ground.ts'
import { openToolbox } from '../monitors/toolbox.ts'

/** The ground for runs of this agent; `link` leads to its platform, where it has one. */
export function scriptGround(config: AgentConfig, link?: PlatformLink): ScriptGround {
  let cage: Promise<Cage> | undefined
  let fetcher: Promise<BundleFetcher> | undefined
  const cacheFolder = runsCacheFolder(config.dataDir, config.toolsDir)
  return {
    cage: () => (cage ??= makeCage(config)),
    tools: openToolbox(config.toolsDir),
    chromiumPath: config.chromiumPath,
    cacheFolder,
    ...(link !== undefined && {
      async bundle(sha256, signal) {
        fetcher ??= makeFetcher(link, join(cacheFolder, 'bundle-files'))
        return (await fetcher).fetch(sha256, signal)
      },
    }),
    close: () => void cage?.then((one) => one.close()),
    ownProjects: config.monitorsFile !== undefined,
  }
}

async function makeFetcher(link: PlatformLink, folder: string): Promise<BundleFetcher> {
  const { createBundleFetcher } = await import('../agent/bundle-fetcher.ts')
  return createBundleFetcher({ link, folder })
}

async function makeCage(config: AgentConfig): Promise<Cage> {
  const { createCage } = await import('../monitors/cage.ts')
  return createCage({
    network: { blocked: config.blockedNetworks, allowed: config.allowedNetworks },
    isolation: config.scriptIsolation,
    firstUserId: config.scriptUserId,
  })
}
