// Aim: the built image of the agent answers its probes at the configured address, and `docker stop` in the middle of
// jobs loses nothing: not ready at once, alive to the end, everything delivered, exit code 0 in time.
import { expect, test, describe } from 'vitest'
import { startContainer, type Contained } from '../support/container/contained.ts'
import { agentIn, platformFor, unanswered } from '../support/container/contained-agent.ts'
import { eventually } from '../support/eventually.ts'
import { needImages } from '../support/container/images.ts'

const PATHS = ['/-/readiness', '/-/liveness', '/health', '/metrics']
needImages('agent-uptime')

async function statuses(agent: Contained, port?: number) {
  const answers = await Promise.all(PATHS.map((path) => agent.probe(path, port)))
  return answers.map(({ status }) => status)
}

describe('the probes', () => {
  test.each([
    ['8081', undefined],
    ['another AGENT_HEALTH_PORT', 9123],
  ])('answer on %s', async (_, port) => {
    const { network, platform } = await platformFor()
    const env = port === undefined ? {} : { AGENT_HEALTH_PORT: String(port) }
    const agent = await agentIn(network, platform, { env })
    await agent.line(({ msg }) => msg === 'agent started')
    await eventually(async () => (await agent.probe('/-/readiness', port)).status === 200)
    expect(await statuses(agent, port)).toEqual([200, 200, 200, 200])
    expect((await agent.probe('/health', 8081)).status).toBe(port === undefined ? 200 : 0)
    // The command of the image's HEALTHCHECK.
    expect(await agent.exec('/vedette/docker/healthy')).toMatchObject({ code: 0 })
    expect(await agent.stop()).toMatchObject({ code: 0 })
  })

  test('answer on AGENT_HEALTH_HOST alone, also the HEALTHCHECK', async () => {
    const { network, platform } = await platformFor()
    const env = { AGENT_HEALTH_HOST: '127.0.0.2' }
    const agent = await agentIn(network, platform, { env })
    await agent.line(({ msg }) => msg === 'agent started')
    expect(await statuses(agent)).toEqual([0, 0, 0, 0])
    expect(await agent.exec('/vedette/docker/healthy')).toMatchObject({ code: 0 })
  })

  test('fail the HEALTHCHECK when they do not answer', async () => {
    const { network } = await platformFor()
    const idle = await startContainer({
      image: 'agent-uptime',
      network: network.name,
      entrypoint: ['tini', '--', 'sleep', '60'],
    })
    expect(await idle.exec('/vedette/docker/healthy')).toMatchObject({ code: 1 })
  })
})

describe('docker stop', () => {
  test('in the middle of jobs: they end, everything is delivered, exit code 0', async () => {
    const { network, platform } = await platformFor()
    const site = await unanswered(network.gateway)
    platform.give(site.monitors(20))
    const agent = await agentIn(network, platform)
    await eventually(() => site.waiting() === 20)
    const stopping = agent.stop(30)
    await eventually(async () => (await agent.probe('/-/readiness')).status === 503)
    expect(await statuses(agent)).toEqual([503, 200, 200, 200])
    expect((await agent.probe('/-/readiness')).text).toContain('the agent is stopping')
    site.answer()
    const { code, ms } = await stopping
    expect(code).toBe(0)
    expect(ms).toBeLessThan(15_000)
    expect(platform.verdicts()).toEqual({ passed: 20 })
  })

  test('with jobs longer than the grace period: they are cancelled and reported, exit code 0', async () => {
    const { network, platform } = await platformFor()
    const site = await unanswered(network.gateway)
    platform.give(site.monitors(20))
    const agent = await agentIn(network, platform, { env: { DRAIN_SECONDS: '2' } })
    await eventually(() => site.waiting() === 20)
    const { code, ms } = await agent.stop(15)
    expect(code).toBe(0)
    expect(ms).toBeLessThan(12_000)
    expect(platform.verdicts()).toEqual({ cancelled: 20 })
  })
})
