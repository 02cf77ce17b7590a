// What proxies and networks do to requests between agent and platform: errors, truncated, lost and silent
// answers, garbage. Nothing is lost, nothing comes twice.
import { describe, expect, onTestFinished, test } from 'vitest'
import { DATABASE_SERVERS } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { startFaultyProxy, type Fault } from '../support/faulty-proxy.ts'
import { faultsOf, Fleet } from '../support/fleet.ts'

const [server] = DATABASE_SERVERS.toReversed()

const FAULTS: [string, Fault][] = [
  ['errors of a gateway', { kind: 'status', status: 502, body: '<html>Bad Gateway</html>' }],
  ['errors of a server', { kind: 'status', status: 500 }],
  ['a limit', { kind: 'status', status: 429, headers: { 'retry-after': '1' } }],
  ['answers that break off', { kind: 'truncate', bytes: 20 }],
  ['answers that are lost', { kind: 'lose' }],
  ['connections that are reset', { kind: 'reset' }],
  ['other texts with status 200', { kind: 'garbage', body: '<html>Please log in</html>' }],
]

describe('a bad network', () => {
  test.each(FAULTS)(
    '%s in every second request',
    async (_, fault) => {
      const { account, code } = await withFault(fault, 8)
      expect(faultsOf(account)).toEqual({})
      expect(code).toBe(0)
    },
    240_000,
  )

  test('silence in every tenth request', async () => {
    const { account } = await withFault({ kind: 'silence' }, 2, 10)
    expect(faultsOf(account)).toEqual({})
  }, 300_000)
})

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
  // What an answer was waited for in vain comes late, and takes the place of what was filled in.
  const isWell = async () => Object.keys(faultsOf(await fleet.account(until))).length === 0
  await eventually(isWell, { ms: 120_000, what: 'an account without faults' })
  const account = await fleet.account(until)
  agent.child.kill('SIGTERM')
  const { code } = await agent.ended
  return { account, code }
}
