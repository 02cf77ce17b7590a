// The parts of an agent that only a platform needs. Loaded only then, so that an agent on a monitors file stays
// small.
import { randomUUID } from 'node:crypto'
import { LIMITS, VERSION } from '../../contract/versions.ts'
import { EXIT } from '../../process/exit-codes.ts'
import type { Log } from '../../process/log.ts'
import { openToolchains } from '../../scripts/toolchains.ts'
import { openAgentFolder } from '../delivery/spool/agent-folder.ts'
import type { Clock } from '../schedule/clock.ts'
import type { AgentConfig } from '../config.ts'
import { createDelivery } from '../delivery/delivery.ts'
import { PlatformSource } from './client.ts'
import { PlatformLink } from './link.ts'
import type { ResultSink } from '../sink.ts'
import type { MonitorSource } from '../source.ts'

export interface PlatformPartsOptions {
  settings: AgentConfig & { apiKey: string; platformUrl: string }
  /** The types of monitor that this agent can run. */
  checkTypes: Iterable<string>
  clock: Clock
  log: Log
}

/** The source and the sink of an agent with a platform. */
export interface PlatformParts {
  source: MonitorSource
  sink: ResultSink
  /** The client that both use. */
  link: PlatformLink
  agentId(): string
  /** Releases the folder and cuts connections. */
  close(): void
}

/** Opens the agent's folder and the client of the platform; sends nothing yet. */
export async function openPlatformParts(options: PlatformPartsOptions): Promise<PlatformParts> {
  const { settings, checkTypes, clock, log } = options
  const folder = await openAgentFolder({
    dataDir: settings.dataDir,
    apiKey: settings.apiKey,
    formerKeys: settings.formerApiKeys,
    // A restart helps: it takes another folder.
    onLost: () => source.end('another process uses the folder of this agent', EXIT.failed),
  })
  const link = new PlatformLink({
    platformUrl: settings.platformUrl,
    apiKey: settings.apiKey,
    proxyUrl: settings.platformProxyUrl,
    noProxy: settings.noProxy,
  })
  const tools = openToolchains(settings.toolsDir)
  const facts = {
    instance: randomUUID(),
    version: VERSION,
    image: settings.image,
    checkTypes: [...checkTypes],
    // Later ones are reported after a restart.
    engines: await tools.installed('engine'),
    runtimes: await tools.installed('runtime'),
  }
  let delivering = {
    fullPassedEveryMs: FULL_PASSED_EVERY_MS,
    artifactBytesMax: LIMITS.artifactBytesMax,
  }
  const source = new PlatformSource({
    link,
    clock,
    log,
    folder,
    renewId: () =>
      folder.renewId().catch((error: unknown) => {
        log.warn(
          { err: error },
          'the new agent id cannot be stored; the next start creates another one',
        )
      }),
    onSettings: (said) => (delivering = said),
    // The platform answers again: waiting attempts start at once.
    onBack: () => sink.hurry(),
    facts: () => ({ ...facts, id: folder.id }),
  })
  const sink = await createDelivery({
    folder,
    link,
    log,
    spoolBytesMax: settings.spoolBytesMax,
    settings: () => delivering,
  })
  const close = () => {
    link.close()
    folder.close()
  }
  return { source, sink, link, agentId: () => folder.id, close }
}

/** Until the platform has said how often. */
const FULL_PASSED_EVERY_MS = 3_600_000
