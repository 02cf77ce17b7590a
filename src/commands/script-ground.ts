// Makes the ground that people's own code stands on, as the settings say. What it needs is loaded at its first
// run: an agent for uptime checks alone must not carry it in its memory.
import { join } from 'node:path'
import type { AgentConfig } from '../agent/config.ts'
import type { Cage } from '../monitors/cage.ts'
import type { ScriptGround } from '../monitors/script-ground.ts'
import { openToolbox } from '../monitors/toolbox.ts'

/** The ground for runs of this agent. */
export function scriptGround(config: AgentConfig): ScriptGround {
  let cage: Promise<Cage> | undefined
  return {
    cage: () => (cage ??= makeCage(config)),
    tools: openToolbox(config.toolsDir),
    chromiumPath: config.chromiumPath,
    cacheFolder: join(config.toolsDir, 'cache'),
    close: () => void cage?.then((one) => one.close()),
    ownProjects: config.monitorsFile !== undefined,
  }
}

async function makeCage(config: AgentConfig): Promise<Cage> {
  const { createCage } = await import('../monitors/cage.ts')
  return createCage({
    network: { blocked: config.blockedNetworks, allowed: config.allowedNetworks },
    isolation: config.scriptIsolation,
    firstUserId: config.scriptUserId,
  })
}
