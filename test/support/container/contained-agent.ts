// The usual setting of an agent in a container: a separate network, and in it, on this machine, a platform that
// speaks the agents' protocol and a site to watch.
import type { ServerResponse } from 'node:http'
import { afterEach } from 'vitest'
import type { KeyPair } from '../network/certificates.ts'
import { type Contained, type ContainerOptions, startContainer } from './contained.ts'
import { createNetwork, type ContainerNetwork } from './container-engine.ts'
import { aMonitor } from '../agent/fake-monitors.ts'
import { FAKE_KEY, type FakePlatform, json, startFakePlatform } from '../agent/fake-platform.ts'
import { startHttpServer } from '../test-server.ts'

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

/** A platform whose monitors a test sets. */
export type GivingPlatform = FakePlatform & {
  /** Monitors; without `everyMs` each runs once, at once. */
  give(monitors: readonly Record<string, unknown>[], everyMs?: number): void
  /** Number of results by verdict. */
  verdicts(): Record<string, number>
}

/** Far longer than any test; the newest slot that has passed runs at once. */
const ONCE_MS = 86_400_000

/** URL monitors of these addresses. */
export const watching = (...urls: string[]) => urls.map((url) => ({ request: { url } }))

/** Starts a platform on an address of this machine; it closes with the test. */
export async function platformAt(host: string, tls?: KeyPair): Promise<GivingPlatform> {
  const platform = await startFakePlatform(tls, host)
  closing.push(() => platform.close())
  return Object.assign<FakePlatform, Omit<GivingPlatform, keyof FakePlatform>>(platform, {
    give(monitors, everyMs = ONCE_MS) {
      const set = monitors.map((fields, at) => ({
        monitor: aMonitor(guid(at), fields),
        slots: { everyMs, offsetMs: 0 },
        from: everyMs === ONCE_MS ? 0 : Date.now(),
      }))
      platform.say({ revision: '1.2', changes: { whole: true, set, drop: [], variables: [] } })
    },
    verdicts: () => tally(platform.results.map(({ verdict }) => verdict)),
  })
}

const guid = (at: number) => `22222222-2222-4222-8222-${String(at).padStart(12, '0')}`

function tally(labels: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const label of labels) counts[label] = (counts[label] ?? 0) + 1
  return counts
}

/** A network with a platform in it. */
export async function platformFor(): Promise<{
  network: ContainerNetwork
  platform: GivingPlatform
}> {
  const network = await createNetwork()
  return { network, platform: await platformAt(network.gateway) }
}

/** Starts an agent for a platform; `options` override the defaults. */
export function agentIn(
  network: ContainerNetwork,
  platform: FakePlatform,
  options: Partial<ContainerOptions> = {},
): Promise<Contained> {
  return startContainer({
    image: 'agent-uptime',
    network: network.name,
    ...options,
    env: { API_KEY: FAKE_KEY, PLATFORM_URL: platform.url, LOG_RESULTS: 'all', ...options.env },
  })
}

/** A site that delays every answer until `answer()`. */
export interface UnansweringSite {
  url: string
  waiting(): number
  /** URL monitors of different paths. */
  monitors(count: number): { request: { url: string } }[]
  /** Answers the waiting requests and all later ones. */
  answer(): void
}

/** Starts it on an address of this machine. */
export async function unanswered(host: string): Promise<UnansweringSite> {
  const waiting: ServerResponse[] = []
  let isOpen = false
  const server = await startHttpServer((_, response) => {
    if (isOpen) response.end('ok')
    else waiting.push(response)
  }, host)
  closing.push(() => server.close())
  const url = `http://${server.authority}`
  return {
    url,
    monitors: (count) => watching(...Array.from({ length: count }, (_, at) => `${url}/${at}`)),
    waiting: () => waiting.length,
    answer() {
      isOpen = true
      for (const response of waiting) response.end('ok')
    },
  }
}

/** From now on the platform rejects results. */
export function refuseResults(platform: GivingPlatform): void {
  platform.misbehave((request, response) => {
    if (request.url?.endsWith('/results') !== true) return false
    json(response, { statusCode: 503, message: 'away' }, 503)
    return true
  })
}
