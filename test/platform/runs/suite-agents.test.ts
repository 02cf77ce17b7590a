// Aim: a check suite is assigned only to agents that have its engine.
import { expect, test } from 'vitest'
import { TEST_CIPHER, useAgentsApi } from '../../support/platform/agents-api.ts'
import { FakeAgent } from '../../support/platform/fake-agent.ts'
import { addSuiteBundle, SUITE_BUNDLE } from '../../support/platform/bundles.ts'
import { addLocation } from '../../support/platform/locations.ts'
import { servePublicApi } from '../../support/platform/public-api.ts'

const { database, api } = useAgentsApi()
const { addClient } = servePublicApi(database, () => ({ cipher: TEST_CIPHER }))

test('a suite goes to the agent that has its engine', async () => {
  const { slugName, secret, accountId } = await addLocation(database().database)
  const client = await addClient({ accountId })
  await addSuiteBundle(database().database, accountId)
  const engines = [['node@24'], ['bun@1.3'], ['node@22', 'node@24']]
  const agents = engines.map((some) => new FakeAgent(secret, { engines: some }))
  for (const one of agents) await one.sync(api)
  const suite = async (engine: string, engineVersion: string): Promise<string> => {
    const common = { name: 'x', codeBundlePath: SUITE_BUNDLE, privateLocations: [slugName] }
    const body = { ...common, frequency: 1, engine, engineVersion }
    return (await client.call('POST', '/v1/checks/playwright', { body })).body.id
  }
  const ofBun = await Promise.all(Array.from({ length: 10 }, () => suite('bun', '1.3')))
  const ofNode = await Promise.all(Array.from({ length: 10 }, () => suite('node', '24')))
  for (const one of agents) await one.sync(api)
  const [first = [], bun, second = []] = agents.map((one) => [...one.monitors.keys()].toSorted())
  expect(bun).toEqual(ofBun.toSorted())
  // For a moment two of them share slots of one, as after an agent joined.
  expect([...new Set([...first, ...second])].toSorted()).toEqual(ofNode.toSorted())
})
