// The parts of an agent that only a platform needs. Loaded only then, so that an agent on a monitors file stays
// small.
import { randomUUID } from 'node:crypto'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { LIMITS, VERSION } from '../../contract/versions.ts'
import type { Log } from '../../process/log.ts'
import { openToolchains } from '../../scripts/toolchains.ts'
import { openAgentFolder, type AgentFolder } from '../delivery/spool/agent-folder.ts'
import type { Clock } from '../schedule/clock.ts'
import type { AgentConfig } from '../config.ts'
import { createDelivery } from '../delivery/delivery.ts'
import { createPlatformSource } from './client.ts'
import { createPlatformLink, type PlatformLink } from './link.ts'
import type { ResultSink } from '../sink.ts'
import type { MonitorSource } from '../source.ts'

/** The settings that it needs. */
export type PlatformSettings = Pick<
  AgentConfig,
  | 'dataDir'
  | 'toolsDir'
  | 'formerApiKeys'
  | 'image'
  | 'spoolBytesMax'
  | 'platformProxyUrl'
  | 'noProxy'
> & { apiKey: string; platformUrl: string }

export interface PlatformPartsOptions {
  settings: PlatformSettings
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

/** Exit code when another agent acquired this agent's folder: a restart helps. */
const EXIT_FOLDER_LOST = 1

/** Opens the agent's folder and the client of the platform; sends nothing yet. */
export async function openPlatformParts(options: PlatformPartsOptions): Promise<PlatformParts> {
  const { settings, clock, log } = options
  const folder = await openAgentFolder({
    dataDir: settings.dataDir,
    apiKey: settings.apiKey,
    formerKeys: settings.formerApiKeys,
    onLost: () => source.end('another process took the folder of this agent', EXIT_FOLDER_LOST),
  })
  const link = createPlatformLink({
    platformUrl: settings.platformUrl,
    apiKey: settings.apiKey,
    proxyUrl: settings.platformProxyUrl,
    noProxy: settings.noProxy,
  })
  const identity = identityIn(folder)
  const installed = await installedTools(settings.toolsDir)
  let delivering = {
    fullPassedEveryMs: FULL_PASSED_EVERY_MS,
    artifactBytesMax: LIMITS.artifactBytesMax,
  }
  const source = createPlatformSource({
    link,
    clock,
    log,
    folder,
    renewId: () => identity.renew(log),
    onSettings: (said) => (delivering = said),
    // The platform answers again: waiting attempts start at once.
    onBack: () => sink.hurry(),
    facts: factsOf(options, installed, () => identity.id()),
  })
  const sink = await createDelivery({
    folder,
    link,
    log,
    spoolBytesMax: settings.spoolBytesMax,
    settings: () => delivering,
    agentId: () => identity.id(),
  })
  return { source, sink, link, agentId: identity.id, close: () => close(folder, link) }
}

/** Until the platform has said how often. */
const FULL_PASSED_EVERY_MS = 3_600_000

/** Tools that are installed at the start; later ones are reported after a restart. */
async function installedTools(toolsDir: string) {
  const tools = openToolchains(toolsDir)
  const [engines, runtimes] = await Promise.all([
    tools.installed('engine'),
    tools.installed('runtime'),
  ])
  return { engines, runtimes }
}

function factsOf(
  { checkTypes, settings }: PlatformPartsOptions,
  installed: { engines: string[]; runtimes: string[] },
  id: () => string,
) {
  const own = {
    instance: randomUUID(),
    version: VERSION,
    image: settings.image,
    checkTypes: [...checkTypes],
    engines: installed.engines,
    runtimes: installed.runtimes,
  }
  return () => ({ ...own, id: id() })
}

/** The agent's id, which changes only where a copy of its folder is in use elsewhere. */
function identityIn(folder: AgentFolder) {
  let { id } = folder
  return {
    id: () => id,
    async renew(log: Log): Promise<boolean> {
      id = randomUUID()
      if (folder.path === undefined || !folder.isHeld()) return true
      const file = join(folder.path, 'id')
      try {
        await writeFile(`${file}.new`, `${id}\n`, { mode: 0o600, flush: true })
        await rename(`${file}.new`, file)
      } catch (error) {
        log.warn({ err: error }, 'the new id cannot be kept; the next start takes another one')
      }
      return true
    },
  }
}

function close(folder: AgentFolder, link: PlatformLink): void {
  link.close()
  folder.close()
}
