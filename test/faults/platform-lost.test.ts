// A platform that is killed, restarted, away for long, or whose database restarts: agents continue and deliver
// their results, and the account of every slot is complete.
import { describe, expect, onTestFinished, test } from 'vitest'
import { DATABASE_SERVERS } from '../support/database/database.ts'
import { type RunningServer, startServer } from '../support/database/database-servers.ts'
import { eventually } from '../support/eventually.ts'
import { faultsOf, fleetOf } from '../support/faults/fleet.ts'

/** A fleet whose monitors have all passed. */
async function runningFleet(monitors: number, everySeconds: number, server?: RunningServer) {
  const made = await fleetOf(['one'], {}, server)
  const { fleet } = made
  const ids = await fleet.createMonitors(monitors, everySeconds, ['cellar'])
  await eventually(() => fleet.havePassed(0, ids.length))
  return { ...made, ids }
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
        await eventually(() => fleet.havePassed(since, ids.length))
      }
      const account = await fleet.account()
      expect(faultsOf(account)).toEqual({})
    },
  )

  test('away while the agent runs and restarts: it continues from its stored state', async () => {
    const { fleet, platform, location, ids, agents } = await runningFleet(10, 2)
    const { url } = platform
    await fleet.endPlatform(platform, 'SIGKILL')
    const requestsBefore = fleet.requests()
    await eventually(() => fleet.requests() > requestsBefore + 50)
    agents[0]?.child.kill('SIGTERM')
    expect(await agents[0]?.ended).toMatchObject({ code: 0 })
    const again = fleet.startAgent({ location, name: 'one', platformUrl: url })
    await again.line(({ msg }) => msg === 'agent started')
    const requestsThen = fleet.requests()
    await eventually(() => fleet.requests() > requestsThen + 50)
    const since = Date.now()
    await fleet.startPlatform()
    await eventually(() => fleet.havePassed(since, ids.length))
    const account = await fleet.account()
    expect(account).toMatchObject({ missing: 0, unexpected: 0 })
    const missed = account.byVerdict['missed'] ?? 0
    // Only slots between the end of one process and the start of the next.
    expect(missed).toBeLessThanOrEqual(ids.length * 4)
    expect(account.byVerdict['passed']).toBe(account.expected - missed)
  })
})

describe.each(DATABASE_SERVERS)('$name', ({ key }) => {
  test('restarted, in order and as in a crash, under a fleet: each slot has its row', async ({
    skip,
  }) => {
    const given = key === 'other' && process.env['TEST_DATABASE_URL'] !== undefined
    skip(given, 'TEST_DATABASE_URL is not ours to restart')
    const own = await startServer(key, {})
    onTestFinished(() => own.stop())
    const { fleet, ids } = await runningFleet(20, 1, own.running)
    for (const how of ['fast', 'immediate', 'fast', 'immediate'] as const) {
      // Long enough for runs whose results cannot be recorded.
      const requestsBefore = fleet.requests()
      const isMissed = () => fleet.requests() > requestsBefore + 3 * ids.length
      await own.restart(how, async () => void (await eventually(isMissed)))
      const since = Date.now()
      await eventually(() => fleet.havePassed(since, ids.length).catch(() => false))
    }
    const account = await fleet.account()
    expect(faultsOf(account)).toEqual({})
  })
})
