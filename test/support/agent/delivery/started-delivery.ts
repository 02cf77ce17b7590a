// A complete delivery for tests: a platform over HTTP, a folder, results of one monitor.
import { join } from 'node:path'
import { Registry } from 'prom-client'
import { afterEach } from 'vitest'
import {
  openAgentFolder,
  type AgentFolder,
  type AgentFolderOptions,
} from '../../../../src/agent/delivery/spool/agent-folder.ts'
import {
  createDelivery,
  type Delivery,
  type DeliveryOptions,
} from '../../../../src/agent/delivery/delivery.ts'
import { PlatformLink } from '../../../../src/agent/platform/link.ts'
import type { Result } from '../../../../src/contract/result.ts'
import { collectingLog } from '../../collecting-log.ts'
import {
  FAKE_KEY,
  recorded,
  refusal,
  startFakePlatform,
  type FakePlatform,
} from '../fake-platform.ts'
import { aResult } from '../../results.ts'
import { temporaryFolder } from '../../temporary-folder.ts'

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp()
})

/** The platform of these tests, with a link to it. */
export type Platform = FakePlatform & { link: PlatformLink }

/** Starts it; it ends with the test. */
export async function platformOf(): Promise<Platform> {
  const platform = await startFakePlatform()
  const link = new PlatformLink({ platformUrl: platform.url, apiKey: FAKE_KEY })
  cleanUps.push(() => platform.close())
  cleanUps.push(() => link.close())
  return Object.assign(platform, { link })
}

/** A delivery under way. */
export interface Started {
  delivery: Delivery
  folder: AgentFolder
  lines: string[]
  /** As facts() says. */
  facts: () => Record<string, number>
  /** Prometheus text. */
  metrics: () => Promise<string>
  /** Stops it and releases the folder, as at the end of a process. */
  end: (flushMs?: number) => Promise<void>
}

/** Starts a delivery; without a folder it is in memory. */
export async function started(
  dataDir: string | undefined,
  platform: Platform,
  changes: Partial<DeliveryOptions> = {},
  folderChanges: Partial<AgentFolderOptions> = {},
): Promise<Started> {
  const { log, lines } = collectingLog()
  const folder = await openAgentFolder({
    dataDir: dataDir ?? join(process.execPath, 'no-folder'),
    apiKey: FAKE_KEY,
    onLost: () => undefined,
    ...folderChanges,
  })
  const delivery = await createDelivery({
    folder,
    link: platform.link,
    spoolBytesMax: 64 * 1024 * 1024,
    settings: () => ({ fullPassedEveryMs: 3_600_000, artifactBytesMax: 1000 }),
    log,
    ...changes,
  })
  const registry = new Registry()
  delivery.registerMetrics(registry)
  const end = async (flushMs = 5000) => {
    await delivery.flush(flushMs)
    folder.close()
  }
  cleanUps.push(() => end(0))
  return {
    delivery,
    folder,
    lines,
    end,
    facts: () => delivery.facts()['delivery'] as Record<string, number>,
    metrics: () => registry.metrics(),
  }
}

/** A platform with these answers, and a delivery to it in a new folder. */
export async function startedFresh(
  reply: Platform['reply'] = recorded,
  changes: Partial<DeliveryOptions> = {},
): Promise<Started & { platform: Platform }> {
  const platform = await platformOf()
  platform.reply = reply
  return { ...(await started(temporaryFolder(), platform, changes)), platform }
}

/** Leaves results in a DATA_DIR, as an agent does that ends while the platform refuses; which it does after, too. */
export async function left(dataDir: string, platform: Platform, count = 10): Promise<string> {
  platform.reply = () => refusal(503)
  const gone = await started(dataDir, platform)
  await deliver(gone.delivery, 0, count)
  await gone.end(0)
  return gone.folder.path ?? ''
}

/** The one monitor. */
export const MONITOR = '7c1f9d58-7a3c-4d9b-9d51-8a4b0d5b8a11'
/** The slot of a number. */
export const slotOf = (number: number) => 1_700_000_000_000 + number * 1000
/** The result of a number. */
export const result = (number: number, changes: Partial<Result> = {}) =>
  aResult({ monitorId: MONITOR, slot: slotOf(number), ...changes })

/** Delivers results with numbers; resolves when all are stored. */
export async function deliver(delivery: Delivery, from: number, count: number): Promise<void> {
  await Promise.all(Array.from({ length: count }, (_, at) => delivery.deliver(result(from + at))))
}

/** The numbers that the platform does not have. */
export function missing(platform: Platform, count: number): number[] {
  return Array.from({ length: count }, (_, at) => at).filter(
    (at) => !platform.has.has(`${MONITOR} ${slotOf(at)}`),
  )
}

/** Retries at once, like an agent whose sync works. */
export function hurried(delivery: Delivery): void {
  const timer = setInterval(() => delivery.hurry(), 5)
  cleanUps.push(() => clearInterval(timer))
}
