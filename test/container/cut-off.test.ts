// Aim: two agents and a platform on PostgreSQL, each in a container, in a separate network. One agent is cut off and
// reconnected: every expected slot has one record, none was missed, and none was recorded twice.
import { describe, expect, test } from 'vitest'
import type { Database } from '../../src/database/database.ts'
import { startContainer } from '../support/container/contained.ts'
import { createNetwork } from '../support/container/container-engine.ts'
import { startPlatformContainer } from '../support/container/contained-platform.ts'
import { startPostgresContainer } from '../support/container/contained-postgres.ts'
import { eventually } from '../support/eventually.ts'
import { accountIn, faultsOf } from '../support/faults/fleet.ts'
import { needImages } from '../support/container/images.ts'

needImages('agent-uptime', 'platform')

const MONITORS = 30
const EVERY_SECONDS = 2

async function installation() {
  const network = await createNetwork()
  const postgres = await startPostgresContainer(network.name)
  const platform = await startPlatformContainer(network.name, {
    DATABASE_URL: postgres.url,
    ACCOUNTING_GRACE_SECONDS: '15',
  })
  const { key } = await platform.createLocation('cellar')
  const env = { PLATFORM_URL: platform.url, API_KEY: key }
  const start = () => startContainer({ image: 'agent-uptime', network: network.name, env })
  const agents = await Promise.all([start(), start()])
  await eventually(async () => (await live(postgres.database)) === 2, { what: 'two agents' })
  for (let n = 0; n < MONITORS; n++) {
    await platform.api('POST', '/v1/checks/url', {
      name: `Itself ${n}`,
      frequency: 0,
      frequencyOffset: EVERY_SECONDS,
      privateLocations: ['cellar'],
      // The disconnected agent still reaches it.
      request: { url: 'http://127.0.0.1:8081/health' },
    })
  }
  return { network, database: postgres.database, platform, agents }
}

async function live(database: Database): Promise<number> {
  return (await database.query(`select id from agents where state = 'live'`)).length
}

/** Agents with records of the last seconds, and the number of their monitors. */
async function atWork(database: Database): Promise<number[]> {
  const rows = await database.query<{ n: number }>(
    `select count(distinct monitor_id)::int as n from results
     where slot > now() - interval '5 s' and not filled group by agent_id order by 1`,
  )
  return rows.map(({ n }) => n)
}

describe('two agents and a platform in a separate network', () => {
  test('one is cut off and comes back: every slot recorded, none missed, none twice', async () => {
    const { network, database, agents } = await installation()
    const [one, two] = agents
    await eventually(async () => (await atWork(database)).length === 2)
    await network.cut(two.id)
    await eventually(async () => (await live(database)) === 1, { what: 'one agent' })
    const alone = async () => (await atWork(database)).at(-1) === MONITORS
    await eventually(alone, { what: 'all monitors on the other' })
    await network.heal(two.id)
    await eventually(async () => (await live(database)) === 2, { what: 'two agents' })
    await eventually(async () => (await atWork(database)).length === 2)
    // Slots that are due after the last agent's stop have no owner.
    const until = Date.now()
    for (const agent of agents) {
      expect(await agent.stop(60)).toMatchObject({ code: 0 })
    }
    const account = await accountIn(database, until)
    expect(faultsOf(account)).toEqual({})
    expect(account.recorded).toBe(account.expected)
    const [row] = await database.query<{ twice: number }>(
      `select count(*)::int as twice from (select 1 from results
       group by location_id, monitor_id, slot having count(*) > 1) more`,
    )
    expect(row?.twice).toBe(0)
    for (const agent of [one, two]) expect(agent.said()).not.toContain('"level":"error"')
  })
})
