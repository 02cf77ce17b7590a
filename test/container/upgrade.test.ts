// Aim: a container is replaced over its volume, as in an upgrade, and nothing is lost: the next agent delivers the
// stored results. Also those of the oldest format: test/fixtures/kept-by-earlier was made at revision f261a9d1, under
// the key of these tests, during 15 s with a platform that rejected results.
import { chmodSync, cpSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { startContainer } from '../support/container/contained.ts'
import {
  agentIn,
  type GivingPlatform,
  platformFor,
  refuseResults,
  watching,
} from '../support/container/contained-agent.ts'
import { createVolume } from '../support/container/container-engine.ts'
import { eventually } from '../support/eventually.ts'
import { needImages } from '../support/container/images.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

needImages('agent-uptime')

const EARLIER = join(import.meta.dirname, '../fixtures/kept-by-earlier')
const EARLIER_ID = 'cc56ce5f-df0a-43f5-a1c6-d46ff295cce7'
/** When the fixture was made. */
const MADE_BEFORE = Date.parse('2026-11-22T03:32:00Z')

/** From now on the platform answers nothing at all. */
function stopAnswering(platform: GivingPlatform): void {
  platform.misbehave((request) => {
    request.socket.destroy()
    return true
  })
}

/** Slots of results by monitor; each has to occur once. */
const slotsOf = (platform: GivingPlatform) =>
  platform.results.map(({ monitorId, slot }) => `${monitorId} ${slot}`)

describe('a container that is replaced over its volume', () => {
  test('hands its undelivered results and its id over to the next one', async () => {
    const { network, platform } = await platformFor()
    const volume = await createVolume()
    refuseResults(platform)
    platform.give(watching('http://127.0.0.1:8081/health', 'http://127.0.0.1:8081/metrics'), 1000)
    const first = await agentIn(network, platform, { volume })
    await eventually(async () => /"waiting":1\d/.test((await first.probe('/health')).text))
    expect(await first.stop()).toMatchObject({ code: 0 })
    const { results } = await first.line(({ msg }) => msg?.includes('results stay') === true)
    expect(platform.results).toEqual([])
    const [before] = platform.syncs
    platform.misbehave(undefined)
    platform.give([])
    const second = await agentIn(network, platform, { volume })
    await eventually(() => platform.results.length >= Number(results))
    await platform.sync(({ agent }) => agent.instance !== before?.agent.instance)
    expect(new Set(platform.syncs.map(({ agent }) => agent.id)).size).toBe(1)
    expect(await second.stop()).toMatchObject({ code: 0 })
    expect(new Set(slotsOf(platform)).size).toBe(platform.results.length)
    expect(platform.results).toHaveLength(Number(results))
  })

  test('reads the data of the oldest agent: its id, its monitors and its results', async () => {
    const { network, platform } = await platformFor()
    const volume = await createVolume()
    const source = join(temporaryFolder(), 'earlier')
    cpSync(EARLIER, source, { recursive: true })
    chmodSync(source, 0o755)
    const copy = await startContainer({
      image: 'agent-uptime',
      network: 'none',
      volume,
      files: { '/earlier': source },
      entrypoint: ['cp', '-r', '/earlier/agents', '/var/lib/vedette/'],
    })
    expect([await copy.ended, copy.said()]).toEqual([0, ''])
    stopAnswering(platform)
    const agent = await agentIn(network, platform, { volume })
    await agent.line(({ msg }) => msg?.includes('stored monitors run') === true)
    await eventually(async () => (await agent.probe('/-/readiness')).status === 200)
    platform.misbehave(undefined)
    const ofBefore = () => platform.results.filter(({ slot }) => slot < MADE_BEFORE)
    await eventually(() => ofBefore().length >= 30)
    expect(platform.syncs[0]?.agent.id).toBe(EARLIER_ID)
    expect(await agent.stop()).toMatchObject({ code: 0 })
    const old = ofBefore()
    expect(old).toHaveLength(30)
    expect(new Set(old.map(({ monitorId, slot }) => `${monitorId} ${slot}`)).size).toBe(30)
    const verdicts = Map.groupBy(old, ({ verdict }) => verdict)
    expect([verdicts.get('passed')?.length, verdicts.get('failed')?.length]).toEqual([15, 15])
  })
})
