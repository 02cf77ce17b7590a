// Faults of proxies and networks between agent and platform: errors, truncated, lost and missing answers, garbage.
// No result is lost, none is recorded twice.
import { randomBytes } from 'node:crypto'
import { describe, expect, onTestFinished, test } from 'vitest'
import { DATABASE_SERVERS } from '../support/database/database.ts'
import { eventually } from '../support/eventually.ts'
import { startFaultyProxy, type Fault } from '../support/agent/delivery/faulty-proxy.ts'
import { faultsOf, Fleet } from '../support/faults/fleet.ts'

const [server] = DATABASE_SERVERS.toReversed()

const FAULTS: [string, Fault][] = [
  ['errors of a gateway', { kind: 'status', status: 502, body: '<html>Bad Gateway</html>' }],
  ['errors of a server', { kind: 'status', status: 500 }],
  ['a limit', { kind: 'status', status: 429, headers: { 'retry-after': '1' } }],
  ['answers that break off', { kind: 'truncate', bytes: 20 }],
  ['answers that are lost', { kind: 'lose' }],
  ['connections that are reset', { kind: 'reset' }],
  ['other texts with status 200', { kind: 'garbage', body: '<html>Please log in</html>' }],
  ['answers of a slow line', { kind: 'slow', bytesPerSecond: 200 }],
]

describe('a bad network', () => {
  test.each(FAULTS)('%s in every second request', async (_, fault) => {
    const { account, code } = await withFault(fault, 8)
    expect(faultsOf(account)).toEqual({})
    expect(code).toBe(0)
  })

  test('answers that stop halfway, in every tenth request', async () => {
    const { account } = await withFault({ kind: 'half-open', bytes: 40 }, 2, 10)
    expect(faultsOf(account)).toEqual({})
  })

  test('no answer in every tenth request', async () => {
    const { account } = await withFault({ kind: 'no-answer' }, 2, 10)
    expect(faultsOf(account)).toEqual({})
  })
})

describe('a line on which an answer takes longer than the heartbeat timeout of an agent', () => {
  test('the agent is not lost, reads the whole answer, and runs its monitors', async () => {
    const { fleet, proxy, ids } = await onSlowLine(45_000)
    const isRunning = async () => (await monitorsPassed(fleet)) === ids.length
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
    const isRunning = async () => (await monitorsPassed(fleet)) === ids.length
    await eventually(isRunning, { what: 'every monitor on the other agent' })
    expect(await fleet.account()).toMatchObject({ missing: 0, unexpected: 0 })
    expect(await missedAfterFirst(fleet)).toEqual([])
  })
})

/** A fleet whose only agent gets its first answer, some 60 KB of it, within `answerMs`. */
async function onSlowLine(answerMs: number) {
  if (server === undefined) throw new Error('there is always a database')
  const fleet = await Fleet.create(server)
  onTestFinished(() => fleet.close())
  const platform = await fleet.startPlatform()
  const proxy = await startFaultyProxy(() => platform.url)
  onTestFinished(() => proxy.close())
  const location = await fleet.createLocation('cellar')
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

async function monitorsPassed({ database }: Fleet): Promise<number> {
  const [row] = await database.query<{ n: number }>(
    `select count(distinct monitor_id)::int as n from results where verdict = 'passed'`,
  )
  return row?.n ?? 0
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

async function withFault(fault: Fault, faults: number, everyNth = 2) {
  if (server === undefined) throw new Error('there is always a database')
  const fleet = await Fleet.create(server)
  onTestFinished(() => fleet.close())
  const platform = await fleet.startPlatform()
  const proxy = await startFaultyProxy(() => platform.url)
  onTestFinished(() => proxy.close())
  const location = await fleet.createLocation('cellar')
  const agent = fleet.startAgent({ location, name: 'one', platformUrl: proxy.url })
  await fleet.agents(1)
  await fleet.createMonitors(10, 2, ['cellar'])
  let n = 0
  proxy.fault = () => (n++ % everyNth === everyNth - 1 ? fault : undefined)
  await eventually(() => proxy.counts.faults >= faults, { ms: 200_000, what: `${faults} faults` })
  const until = Date.now()
  proxy.fault = () => undefined
  // Results whose answer was lost arrive late and replace the filled rows.
  const isWell = async () => Object.keys(faultsOf(await fleet.account(until))).length === 0
  await eventually(isWell, { what: 'an account without faults' })
  const account = await fleet.account(until)
  agent.child.kill('SIGTERM')
  const { code } = await agent.ended
  return { account, code }
}
