// A platform that is killed, restarted, away for long, or whose database restarts: agents continue and deliver
// their results, and the account of every slot is complete.
import { afterEach, describe, expect, test } from 'vitest'
import { DATABASE_SERVERS, type DatabaseServer } from '../support/database/database.ts'
import { type RunningServer, startServer } from '../support/database/database-servers.ts'
import { eventually } from '../support/eventually.ts'
import { faultsOf, Fleet } from '../support/faults/fleet.ts'

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp()
})

const [server] = DATABASE_SERVERS.toReversed()

async function runningFleet(
  monitors: number,
  everySeconds: number,
  on: DatabaseServer | RunningServer | undefined = server,
) {
  if (on === undefined) throw new Error('there is always a database')
  const fleet = await Fleet.create(on)
  cleanUps.push(() => fleet.close())
  await fleet.startPlatform()
  const location = await fleet.createLocation('cellar')
  const agent = fleet.startAgent({ location, name: 'one' })
  await fleet.agents(1)
  const ids = await fleet.createMonitors(monitors, everySeconds, ['cellar'])
  await eventually(() => havePassed(fleet, 0, ids.length))
  return { fleet, location, ids, agent }
}

/** Whether this many monitors have passed since then. */
async function havePassed(fleet: Fleet, since: number, monitors: number): Promise<boolean> {
  const [row] = await fleet.database.query<{ n: number }>(
    `select count(distinct monitor_id)::int as n from results
     where slot >= to_timestamp($1::float8 / 1000) and verdict = 'passed'`,
    [since],
  )
  return row?.n === monitors
}

describe('the platform', () => {
  test.each(['SIGKILL', 'SIGTERM'] as const)(
    'ended by %s and started again, over and over, misses nothing',
    async (signal) => {
      const { fleet, ids } = await runningFleet(20, 2)
      for (let round = 0; round < 5; round++) {
        const [platform] = fleet.platforms
        if (platform === undefined) throw new Error('one runs')
        await fleet.endPlatform(platform, signal)
        const since = Date.now()
        await fleet.startPlatform()
        await eventually(() => havePassed(fleet, since, ids.length))
      }
      const account = await fleet.account()
      expect(faultsOf(account)).toEqual({})
    },
  )

  test('away while the agent runs and restarts: it continues from its stored state', async () => {
    const { fleet, location, ids, agent } = await runningFleet(10, 2)
    const [platform] = fleet.platforms
    if (platform === undefined) throw new Error('one runs')
    const { url } = platform
    await fleet.endPlatform(platform, 'SIGKILL')
    const requestsBefore = total(fleet)
    await eventually(() => total(fleet) > requestsBefore + 50)
    agent.child.kill('SIGTERM')
    expect(await agent.ended).toMatchObject({ code: 0 })
    const again = fleet.startAgent({ location, name: 'one', platformUrl: url })
    await again.line(({ msg }) => msg === 'agent started')
    const requestsThen = total(fleet)
    await eventually(() => total(fleet) > requestsThen + 50)
    const since = Date.now()
    await fleet.startPlatform()
    await eventually(() => havePassed(fleet, since, ids.length))
    const account = await fleet.account()
    expect(account).toMatchObject({ missing: 0, unexpected: 0 })
    const missed = account.byVerdict['missed'] ?? 0
    // Only slots between the end of one process and the start of the next.
    expect(missed).toBeLessThanOrEqual(ids.length * 4)
    expect(account.byVerdict['passed']).toBe(account.expected - missed)
  })

  test('with its database connections cut: results in transit are recorded once', async () => {
    const { fleet, ids } = await runningFleet(20, 1)
    for (let round = 0; round < 4; round++) {
      await cutConnections(fleet)
      const since = Date.now()
      await eventually(() => havePassed(fleet, since, ids.length))
    }
    const account = await fleet.account()
    expect(faultsOf(account)).toEqual({})
  })
})

describe.each(DATABASE_SERVERS)('$name', ({ key }) => {
  test('restarted, in order and as in a crash, under a fleet: each slot has its row', async ({
    skip,
  }) => {
    const given = key === 'other' && process.env['TEST_DATABASE_URL'] !== undefined
    skip(given, 'TEST_DATABASE_URL is not ours to restart')
    const own = await startServer(key, {})
    cleanUps.push(() => own.stop())
    const { fleet, ids } = await runningFleet(20, 1, own.running)
    for (const how of ['fast', 'immediate', 'fast', 'immediate'] as const) {
      // Long enough for runs whose results cannot be recorded.
      const requestsBefore = total(fleet)
      const isMissed = () => total(fleet) > requestsBefore + 3 * ids.length
      await own.restart(how, async () => void (await eventually(isMissed)))
      const since = Date.now()
      await eventually(() => havePassed(fleet, since, ids.length).catch(() => false))
    }
    const account = await fleet.account()
    expect(faultsOf(account)).toEqual({})
  })
})

/** Same effect as a restart of the server: every connection is terminated. */
async function cutConnections(fleet: Fleet): Promise<void> {
  await fleet.database.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and pid <> pg_backend_pid()`,
  )
}

function total(fleet: Fleet): number {
  let sum = 0
  for (const count of fleet.target.requests.values()) sum += count
  return sum
}
