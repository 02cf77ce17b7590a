// Aim: clusters that choose the user of a container, such as OpenShift, put it into group 0. That is enough to write
// to the volume of every image, and to continue there after a restart.
import { describe, expect, test } from 'vitest'
import { type Contained, startContainer } from '../support/container/contained.ts'
import { agentIn, platformFor, watching } from '../support/container/contained-agent.ts'
import { startPlatformContainer } from '../support/container/contained-platform.ts'
import { startPostgresContainer } from '../support/container/contained-postgres.ts'
import { createNetwork, createVolume } from '../support/container/container-engine.ts'
import { type Image, needImages } from '../support/container/images.ts'

const IMAGES: Image[] = ['agent-uptime', 'agent', 'agent-migrate', 'platform']
const CHOSEN = '1000770000:0'
needImages(...IMAGES)

async function disk(agent: Contained): Promise<unknown> {
  const { text } = await agent.exec('vedette', 'doctor', '--json')
  const { findings } = JSON.parse(text) as { findings: { id: string; standing: string }[] }
  return findings.find(({ id }) => id === 'disk')?.standing
}

describe('a user chosen by the cluster', () => {
  test.each(IMAGES)('writes to the volume of %s', async (image) => {
    const written = 'set -e; cd /var/lib/vedette; mkdir a; echo b > a/b; cat a/b'
    const container = await startContainer({
      image,
      network: 'none',
      user: CHOSEN,
      entrypoint: ['sh', '-c', written],
    })
    expect([await container.ended, container.lines]).toEqual([0, [{ text: 'b' }]])
  })

  test('is the same agent after a restart: its state is on the disk', async () => {
    const { network, platform } = await platformFor()
    platform.give(watching('http://127.0.0.1:8081/health'))
    const volume = await createVolume()
    const options = { user: CHOSEN, volume }
    const first = await agentIn(network, platform, options)
    await platform.result(() => true)
    expect(await disk(first)).toBe('works')
    expect(await first.stop()).toMatchObject({ code: 0 })
    const [before] = platform.syncs
    await agentIn(network, platform, options)
    await platform.sync(({ agent }) => agent.instance !== before?.agent.instance)
    expect(new Set(platform.syncs.map(({ agent }) => agent.id)).size).toBe(1)
  })

  test('runs a platform on a database elsewhere', async () => {
    const { name } = await createNetwork()
    const { url } = await startPostgresContainer(name)
    const platform = await startPlatformContainer(name, { DATABASE_URL: url }, { user: CHOSEN })
    expect(await platform.createLocation('cluster')).toMatchObject({ key: expect.any(String) })
    expect(await platform.stop()).toMatchObject({ code: 0 })
  })

  test('gets the message that the platform’s own database needs a user with a name', async () => {
    const platform = await startContainer({ image: 'platform', network: 'none', user: CHOSEN })
    expect(await platform.ended).toBe(2)
    expect(platform.said()).toContain('set DATABASE_URL')
  })
})
