// An agent whose own name server is gone: its monitors are errored without any alert, and the owners of the location
// are notified once at the beginning and once at the end.
import { expect, onTestFinished, test } from 'vitest'
import { startDnsServer } from '../support/monitors/dns/dns-server.ts'
import { eventually } from '../support/eventually.ts'
import { fleetOf } from '../support/faults/fleet.ts'
import { missing } from '../support/needs.ts'
import { createNetworkNamespace, withResolvConf } from '../support/network/network-namespace.ts'

const cannotRun = process.getuid?.() === 0 ? missing('ip') : 'needs root, for network namespaces'

const MONITORS = 20

test.skipIf(cannotRun !== undefined)(
  `twenty monitors of a location without a name server are one notice, and one when it is back ${cannotRun ?? ''}`,
  async () => {
    const { fleet, platform, location } = await fleetOf([], { HOST: '0.0.0.0' })
    const { id: alertChannelId } = await fleet.api<{ id: number }>('POST', '/v1/alert-channels', {
      type: 'WEBHOOK',
      config: { url: 'http://127.0.0.1:1/' },
    })
    const network = createNetworkNamespace()
    onTestFinished(() => network.remove())
    await fleet.createMonitors(MONITORS, 10, ['cellar'], {
      request: { url: `http://www.zone.example:${new URL(fleet.target.url).port}/` },
      alertChannelSubscriptions: [{ alertChannelId, activated: true }],
      // A busy machine delays the target, too.
      degradedResponseTime: 20_000,
      maxResponseTime: 20_000,
    })
    fleet.startAgent({
      location,
      name: 'one',
      platformUrl: `http://${network.hostAddress}:${new URL(platform.url).port}`,
      prefix: [...network.prefix, ...withResolvConf(`nameserver ${network.hostAddress}\n`)],
    })
    const notices = async () =>
      (
        await fleet.database.query<{ kind: string; payload: object }>(
          'select kind, payload from alert_notifications order by seq',
        )
      ).map(({ kind, payload }) => ({ kind, payload }))
    const monitorsWith = async (verdict: string) =>
      (
        await fleet.database.query(
          'select distinct monitor_id from results where verdict = $1 and failure_code is not distinct from $2',
          [verdict, verdict === 'errored' ? 'RESOLVER_UNREACHABLE' : null],
        )
      ).length
    const patience = { ms: 120_000 }
    await eventually(async () => (await monitorsWith('errored')) === MONITORS, patience)
    await eventually(async () => (await notices()).length > 0, patience)
    expect(await notices()).toMatchObject([
      {
        kind: 'location.network-unreachable',
        payload: {
          location: { slugName: 'cellar' },
          agents: [{ problem: 'RESOLVER_UNREACHABLE' }],
        },
      },
    ])
    const zone = { 'www.zone.example': [network.hostAddress] }
    await using _server = await startDnsServer(zone, { host: network.hostAddress, port: 53 })
    await eventually(async () => (await monitorsWith('passed')) === MONITORS, patience)
    await eventually(async () => (await notices()).length > 1, patience)
    expect((await notices()).map(({ kind }) => kind)).toEqual([
      'location.network-unreachable',
      'location.network-reachable',
    ])
  },
)
