// Aim: a container that runs out of memory or disk loses no result. Stored results are delivered by the next start,
// results that cannot be stored wait in memory, and probes and metrics report the problem.
import { createInterface } from 'node:readline'
import { describe, expect, test } from 'vitest'
import {
  agentIn,
  type GivingPlatform,
  platformFor,
  refuseResults,
  watching,
} from '../support/container/contained-agent.ts'
import { createVolume, engine } from '../support/container/container-engine.ts'
import { eventually } from '../support/eventually.ts'
import { needImages } from '../support/container/images.ts'
import type { Contained } from '../support/container/contained.ts'

needImages('agent-uptime')

const MEBIBYTE = 1024 * 1024
const ITSELF = ['health', '-/liveness', '-/readiness'].map(
  (path) => `http://127.0.0.1:8081/${path}`,
)

/** No slot has two results. */
function expectOnce(platform: GivingPlatform): void {
  for (const [monitorId, results] of Map.groupBy(platform.results, (one) => one.monitorId)) {
    const slots = results.map(({ slot }) => slot).toSorted((a, b) => a - b)
    expect({ monitorId, twice: slots.length - new Set(slots).size }).toEqual({
      monitorId,
      twice: 0,
    })
  }
}

const waiting = async (agent: Contained) => {
  const { text } = await agent.probe('/health')
  return text === '' ? 0 : (JSON.parse(text) as { delivery: { waiting: number } }).delivery.waiting
}

/** The engine's events of a container until now. */
async function eventsOf({ id }: Contained, since: number): Promise<string[]> {
  const filters = { container: [id], event: ['oom', 'die', 'start'] }
  const until = Date.now() / 1000
  const stream = await (await engine()).getEvents({ since, until, filters })
  const events: string[] = []
  for await (const line of createInterface({ input: stream })) {
    const { Action = '', Actor } = JSON.parse(line) as {
      Action?: string
      Actor?: { Attributes: { exitCode?: string } }
    }
    events.push([Action, Actor?.Attributes.exitCode ?? ''].join(' ').trim())
  }
  return [...new Set(events)].toSorted()
}

describe('out of memory', () => {
  test('the kernel ends the agent, the engine restarts it, and stored results are delivered', async () => {
    const { network, platform } = await platformFor()
    const volume = await createVolume()
    refuseResults(platform)
    platform.give(watching(...ITSELF), 1000)
    const agent = await agentIn(network, platform, {
      volume,
      restarts: true,
      memoryBytes: 192 * MEBIBYTE,
      sharedMemoryBytes: 512 * MEBIBYTE,
    })
    await eventually(async () => (await waiting(agent)) >= 9)
    const [before] = platform.syncs
    const since = Date.now() / 1000
    // Shared memory counts for the container, and the agent is its largest process.
    const filling = agent.exec('sh', '-c', 'head -c 400M /dev/zero > /dev/shm/full')
    await filling.catch(() => undefined)
    platform.misbehave(undefined)
    await platform.sync(({ agent: { instance } }) => instance !== before?.agent.instance)
    expect(await eventsOf(agent, since)).toEqual(['die 137', 'oom', 'start'])
    await eventually(() => platform.results.length >= 9)
    await eventually(async () => (await waiting(agent)) === 0)
    expectOnce(platform)
    expect(new Set(platform.syncs.map((one) => one.agent.id)).size).toBe(1)
  })
})

describe('a full disk', () => {
  const full = (agent: Contained) =>
    agent.exec('sh', '-c', 'head -c 64M /dev/zero > /var/lib/vedette/full; true')

  test('loses nothing: results wait in memory, readiness warns, and all are delivered', async () => {
    const { network, platform } = await platformFor()
    refuseResults(platform)
    platform.give(watching(...ITSELF), 1000)
    const agent = await agentIn(network, platform, {
      tmpfs: { '/var/lib/vedette': 'rw,size=4m,uid=10001,gid=10001,mode=0751' },
    })
    await eventually(async () => (await waiting(agent)) > 0)
    expect((await agent.probe('/-/readiness')).text).not.toMatch(/disk/)
    await full(agent)
    await eventually(async () => {
      const { status, text } = await agent.probe('/-/readiness')
      return status === 200 && /disk/.test(text)
    })
    const then = await waiting(agent)
    await eventually(async () => (await waiting(agent)) >= then + 9)
    platform.misbehave(undefined)
    await eventually(async () => (await waiting(agent)) === 0)
    const { text } = await agent.probe('/health')
    expect(JSON.parse(text)).toMatchObject({ delivery: { lost: 0, refused: 0 } })
    await agent.exec('rm', '/var/lib/vedette/full')
    await eventually(async () => !/disk/.test((await agent.probe('/-/readiness')).text))
    expect(await agent.stop()).toMatchObject({ code: 0 })
    expectOnce(platform)
  })
})
