// Aim: the image for migrations has both runtimes: a script runs on the one that it names.
import { describe, expect, test } from 'vitest'
import { agentIn, platformFor } from '../support/container/contained-agent.ts'
import { startContainer } from '../support/container/contained.ts'
import { needImages, tagOf } from '../support/container/images.ts'

needImages('agent', 'agent-migrate')

const RUNTIMES = ['2024.09', '2026.04']
const SCRIPT = `
const { test, expect } = require('@playwright/test')
test('one request', async ({ request }) => {
  expect((await request.get('http://127.0.0.1:8081/health')).status()).toBe(200)
})`

test('the image of the agent names the image for migrations, where an older runtime is requested', async () => {
  const agent = await startContainer({
    image: 'agent',
    network: 'none',
    command: ['runtime', 'install', '2024.09'],
  })
  expect(await agent.ended).toBe(1)
  expect(agent.said()).toContain(tagOf('agent-migrate').split(':')[1])
})

describe('the image for migrations', () => {
  test('runs a script on the old and on the new runtime', async () => {
    const { network, platform } = await platformFor()
    platform.give(
      RUNTIMES.map((runtimeId) => ({
        checkType: 'MULTI_STEP',
        script: SCRIPT,
        runtimeId,
        frequency: 1,
        frequencyOffset: undefined,
        request: undefined,
      })),
    )
    const agent = await agentIn(network, platform, { image: 'agent-migrate' })
    for (const at of ['0', '1']) {
      const result = await platform.result(({ monitorId }) => monitorId.endsWith(at))
      expect(result).toMatchObject({ verdict: 'passed' })
    }
    expect(platform.syncs[0]?.agent.runtimes.toSorted()).toEqual(RUNTIMES)
    expect(await agent.stop()).toMatchObject({ code: 0 })
  })
})
