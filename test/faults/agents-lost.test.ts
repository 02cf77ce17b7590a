// Agents that are killed, restarted one after the other, disconnected and reconnected: every slot has exactly one
// row, a lost agent's monitors soon run elsewhere, and a rolling restart misses nothing.
import { describe, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { faultsOf, type Fleet, fleetOf } from '../support/faults/fleet.ts'
import { missing } from '../support/needs.ts'
import {
  createNetworkNamespace,
  type NetworkNamespace,
} from '../support/network/network-namespace.ts'

describe('killed', () => {
  test('repeatedly, one agent leaves no slot without a row', async () => {
    // It is longer than the heartbeat timeout, after which the last slots count as lost.
    const { fleet, location } = await fleetOf([], { ACCOUNTING_GRACE_SECONDS: '45' })
    const ids = await fleet.createMonitors(20, 2, ['cellar'])
    for (let round = 0; round < 8; round++) {
      const agent = fleet.startAgent({ location, name: 'one' })
      const since = Date.now()
      await eventually(() => fleet.havePassed(since, ids.length / 2))
      agent.child.kill('SIGKILL')
      await agent.ended
    }
    const account = await fleet.account()
    expect(account).toMatchObject({ missing: 0, unexpected: 0 })
    expect(account.recorded).toBe(account.expected)
    expect(account.byVerdict['passed']).toBeGreaterThan(ids.length * 4)
    // A fast restart runs the newest slot again, so none may be lost. The
    // first start comes after the monitors.
    const { 'agent-lost': _lost, 'no-agent': _before, ...others } = account.byReason
    expect(faultsOf({ ...account, byReason: others })).toEqual({})
  })

  test('one of two: within 35 s its monitors run on the other', async () => {
    const { fleet, agents } = await fleetOf(['one', 'two'])
    const ids = await fleet.createMonitors(40, 5, ['cellar'])
    const [one, two] = agents
    await eventually(() => sharedByTwo(fleet))
    two?.child.kill('SIGKILL')
    const killedAt = Date.now()
    await two?.ended
    await eventually(async () => await ranOnOne(fleet, killedAt, ids.length), {
      ms: 35_000,
      what: 'every monitor on the agent that is left',
    })
    expect(Date.now() - killedAt).toBeLessThan(35_000)
    one?.child.kill('SIGTERM')
    await one?.ended
    expect(await fleet.account()).toMatchObject({ missing: 0, unexpected: 0 })
  })
})

/** Whether two agents have recorded results in the last seconds. */
async function sharedByTwo(fleet: Fleet): Promise<boolean> {
  const rows = await fleet.database.query(
    `select agent_id from results where slot > now() - interval '6 s' and not filled group by 1`,
  )
  return rows.length === 2
}

/** Whether one agent has run so many monitors since. */
async function ranOnOne(fleet: Fleet, since: number, count: number): Promise<boolean> {
  const rows = await fleet.database.query<{ n: number }>(
    `select count(distinct monitor_id)::int as n from results
     where not filled and received_at > to_timestamp($1::float8 / 1000) + interval '1 s'
     group by agent_id`,
    [since],
  )
  return rows.some(({ n }) => n === count)
}

describe('a rolling restart', () => {
  test('of two agents misses no slot', async () => {
    const { fleet, location, agents } = await fleetOf(['one', 'two'])
    await fleet.createMonitors(30, 2, ['cellar'])
    await eventually(() => sharedByTwo(fleet))
    const from = Date.now()
    for (let round = 0; round < 2; round++) {
      for (const [at, name] of ['one', 'two'].entries()) {
        agents[at]?.child.kill('SIGTERM')
        expect(await agents[at]?.ended).toMatchObject({ code: 0 })
        const again = fleet.startAgent({ location, name })
        agents[at] = again
        const since = Date.now()
        await again.line(({ msg }) => msg === 'agent started')
        await eventually(async () => {
          return Date.now() > since + 4_000 && (await sharedByTwo(fleet))
        })
      }
    }
    const until = Date.now()
    const account = await fleet.account(until)
    expect(faultsOf(account)).toEqual({})
    expect(account.expected).toBeGreaterThan(((until - from) / 2000) * 20)
  })
})

describe('cut off', () => {
  test('and reconnected: five agents that join, leave and vanish share every slot', async ({
    skip,
  }) => {
    const lacking =
      process.getuid?.() === 0 ? missing('ip') : 'needs root, to make network namespaces'
    skip(lacking !== undefined, lacking)
    // Agents in other networks must reach the platform.
    const { fleet, platform, location } = await fleetOf([], { HOST: '0.0.0.0' })
    const namespaces: NetworkNamespace[] = []
    onTestFinished(() => namespaces.forEach((one) => one.remove()))
    const join = (name: string) => {
      const namespace = createNetworkNamespace()
      namespaces.push(namespace)
      onTestFinished(fleet.target.alsoIn(namespace.prefix))
      const port = new URL(platform.url).port
      const agent = fleet.startAgent({
        location,
        name,
        prefix: namespace.prefix,
        platformUrl: `http://${namespace.hostAddress}:${port}`,
      })
      return { agent, namespace }
    }
    const members = ['a', 'b', 'c', 'd', 'e'].map(join)
    await fleet.agents(5)
    const ids = await fleet.createMonitors(50, 2, ['cellar'])
    await eventually(() => fleet.havePassed(0, ids.length))
    members[1]?.namespace.cut()
    members[2]?.namespace.cut()
    await fleet.agents(3)
    members[3]?.agent.child.kill('SIGTERM')
    await members[3]?.agent.ended
    members[1]?.namespace.heal()
    members[2]?.namespace.heal()
    await fleet.agents(4)
    const since = Date.now()
    await eventually(() => fleet.havePassed(since, ids.length))
    const account = await fleet.account()
    // Disconnected agents continued and delivered after the reconnection.
    expect(faultsOf(account)).toEqual({})
  })
})
