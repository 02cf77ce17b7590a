// A line between agent and platform on which an answer takes longer than the heartbeat timeout: a live agent is not
// lost, and a dead one is.
import { randomBytes } from 'node:crypto'
import { describe, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { startFaultyProxy } from '../support/agent/delivery/faulty-proxy.ts'
import { type Fleet, fleetOf } from '../support/faults/fleet.ts'

describe('a line on which an answer takes longer than the heartbeat timeout of an agent', () => {
  test('the agent is not lost, reads the whole answer, and runs its monitors', async () => {
    const { fleet, proxy, ids } = await onSlowLine(45_000)
    const isRunning = () => fleet.havePassed(0, ids.length)
    await eventually(isRunning, { what: 'every monitor to have run' })
    expect(await timesLost(fleet)).toBe(0)
    const until = Date.now()
    proxy.fault = () => undefined
    const account = await fleet.account(until)
    expect(account).toMatchObject({ missing: 0, unexpected: 0 })
    // Slots that were due before the agent knew of them could not run; all later ones passed.
    expect(await missedAfterFirst(fleet)).toEqual([])
  })

  test('a line that dies meanwhile, with open connections, keeps no agent alive', async () => {
    const { fleet, proxy, location, ids, presences } = await onSlowLine(600_000)
    await eventually(() => presences() >= 3, { what: 'its presence requests during the answer' })
    expect(await timesLost(fleet)).toBe(0)
    proxy.isDead = true
    const diedAt = Date.now()
    await eventually(async () => (await timesLost(fleet)) === 1, { what: 'its loss' })
    // 30 s, and the interval of the platform's check.
    expect(Date.now() - diedAt).toBeLessThan(35_000)
    fleet.startAgent({ location, name: 'two' })
    const isRunning = () => fleet.havePassed(0, ids.length)
    await eventually(isRunning, { what: 'every monitor on the other agent' })
    expect(await fleet.account()).toMatchObject({ missing: 0, unexpected: 0 })
    expect(await missedAfterFirst(fleet)).toEqual([])
  })
})

/** A fleet whose only agent gets its first answer, some 60 KB of it, within `answerMs`. */
async function onSlowLine(answerMs: number) {
  const { fleet, platform, location } = await fleetOf([])
  const proxy = await startFaultyProxy(() => platform.url)
  onTestFinished(() => proxy.close())
  const ids: string[] = []
  // Random data does not compress.
  for (let n = 0; n < 20; n++) {
    const value = randomBytes(3000).toString('base64')
    const environmentVariables = [{ key: 'PAD', value }]
    ids.push(...(await fleet.createMonitors(1, 2, ['cellar'], { environmentVariables })))
  }
  let presences = 0
  proxy.fault = ({ url }) => {
    if (url?.endsWith('/presence') === true) presences++
    return { kind: 'slow', bytesPerSecond: 60_000 / (answerMs / 1000) }
  }
  fleet.startAgent({ location, name: 'one', platformUrl: proxy.url })
  await fleet.agents(1)
  return { fleet, proxy, location, ids, presences: () => presences }
}

/** How often an agent was declared lost. */
async function timesLost({ database }: Fleet): Promise<number> {
  const [row] = await database.query<{ n: number }>(
    `select count(*)::int as n from location_epochs where cause->>'kind' = 'lost'`,
  )
  return row?.n ?? 0
}

/**
 * Slots without a verdict about the target after the first one of their monitor with one. Overtaken slots on a
 * slow machine (`still-running`) are no fault.
 */
async function missedAfterFirst({ database }: Fleet) {
  return database.query(
    `select r.slot, r.verdict, r.missed_reason as reason, r.filled from results r where r.verdict <> 'passed'
       and r.missed_reason is distinct from 'still-running' and exists (
       select from results p where p.monitor_id = r.monitor_id and p.slot < r.slot
         and p.verdict = 'passed')`,
  )
}
