// Faults of proxies and networks between agent and platform: errors, truncated, lost and missing answers, garbage.
// No result is lost, none is recorded twice.
import { describe, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { startFaultyProxy, type Fault } from '../support/agent/delivery/faulty-proxy.ts'
import { faultsOf, fleetOf } from '../support/faults/fleet.ts'

const FAULTS: [string, Fault][] = [
  ['errors of a gateway', { kind: 'status', status: 502, body: '<html>Bad Gateway</html>' }],
  ['answers that break off', { kind: 'truncate', bytes: 20 }],
  ['answers that are lost', { kind: 'lose' }],
  ['connections that are reset', { kind: 'reset' }],
  ['other texts with status 200', { kind: 'garbage', body: '<html>Please log in</html>' }],
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

async function withFault(fault: Fault, faults: number, everyNth = 2) {
  const { fleet, platform, location } = await fleetOf([])
  const proxy = await startFaultyProxy(() => platform.url)
  onTestFinished(() => proxy.close())
  const agent = fleet.startAgent({ location, name: 'one', platformUrl: proxy.url })
  await fleet.agents(1)
  await fleet.createMonitors(10, 2, ['cellar'])
  let n = 0
  proxy.fault = () => (n++ % everyNth === everyNth - 1 ? fault : undefined)
  await eventually(() => proxy.faults >= faults, { ms: 200_000, what: `${faults} faults` })
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
