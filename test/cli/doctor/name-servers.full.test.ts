// Aim: `vedette doctor` reports the state of the system's name servers, however they fail, and in time.
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { expect, onTestFinished, test } from 'vitest'
import { probeNameServers } from '../../../src/cli/doctor/name-servers.ts'
import { startDnsServer, type Zone } from '../../support/monitors/dns/dns-server.ts'
import { agentOf, examine } from '../../support/cli/doctor-process.ts'
import { createNetworkNamespace, withResolvConf } from '../../support/network/network-namespace.ts'

const isRoot = process.getuid?.() === 0
const PLATFORM = 'https://platform.test'
const { signal: never } = new AbortController()

/** The finding about these servers, asked for the platform, or for monitored hosts. */
async function ask(
  servers: string[],
  { platformUrl = PLATFORM, search = [] as string[], signal = never, hosts = [] as string[] } = {},
) {
  const [found] = await probeNameServers({
    config: { platformUrl: hosts.length > 0 ? undefined : platformUrl },
    signal,
    resolv: { servers, search, ndots: 1 },
    monitoredHosts: () => Promise.resolve(hosts),
  })
  return found
}

test.each<[string, Zone[string], string]>([
  ['knows the platform', ['192.0.2.1'], 'works'],
  ['says that the name has no address', [], 'works'],
  ['refuses to answer', 'REFUSED', 'broken'],
  ['does not answer', 'silent', 'broken'],
])('the only one %s', async (_, entry, standing) => {
  await using server = await startDnsServer({ 'platform.test': entry })
  const found = await ask([server.authority])
  expect(found?.standing).toBe(standing)
  expect(found?.fix === undefined).toBe(standing === 'works')
  expect(new Set(server.asked)).toEqual(new Set(['platform.test']))
})

test.each([
  ['a name of the cluster', 'http://vedette-platform.vedette:3000', 'works'],
  ['a name with its own domain', 'http://vedette-platform.vedette.svc.cluster.test', 'works'],
  ['a name of the internet', 'https://platform.example.test', 'broken'],
])('one that refuses all but its own domain is asked for %s', async (_, platformUrl, standing) => {
  const refused = ['vedette-platform.vedette', 'platform.example.test']
  const search = ['vedette.svc.cluster.test', 'svc.cluster.test']
  const beyond = search.flatMap((domain) => refused.map((one) => `${one}.${domain}`))
  await using server = await startDnsServer({
    ...Object.fromEntries([...refused, ...beyond].map((one) => [one, 'REFUSED'] as const)),
    'vedette-platform.vedette.svc.cluster.test': ['192.0.2.1'],
  })
  expect((await ask([server.authority], { platformUrl, search }))?.standing).toBe(standing)
})

test.each<[string, string[], string]>([
  ['knows the monitored hosts', ['http://{{HOST}}/', 'https://shop.test/x'], 'works'],
  ['refuses them as well', ['https://other.test'], 'broken'],
  ['is asked for no other', ['192.0.2.1'], 'broken'],
])('an authoritative one that %s', async (_, hosts, standing) => {
  await using server = await startDnsServer({ '*': 'REFUSED', 'shop.test': ['192.0.2.1'] })
  expect((await ask([server.authority], { hosts }))?.standing).toBe(standing)
})

test('one of two is unresponsive: a warning that names it; an aborted query ends at once', async () => {
  await using good = await startDnsServer({ 'platform.test': ['192.0.2.1'] })
  await using unresponsive = await startDnsServer({ 'platform.test': 'silent' })
  const found = await ask([good.authority, unresponsive.authority])
  expect(found).toMatchObject({ standing: 'warning' })
  expect(found?.says).toContain(unresponsive.authority)
  expect(found?.says).not.toContain(good.authority)
  const stop = new AbortController()
  const asked = ask([unresponsive.authority], { signal: stop.signal })
  const since = performance.now()
  stop.abort()
  expect((await asked)?.standing).toBe('broken')
  expect(performance.now() - since).toBeLessThan(1000)
})

test('without a route to those of the system: reported as such', async ({ skip }) => {
  skip(!isRoot, 'needs root, to take the network away')
  const servers = 'nameserver 192.0.2.53\nnameserver 2001:db8::53\n'
  const prefix = ['unshare', '-n', ...withResolvConf(servers)]
  const said = await examine({ env: { VEDETTE_IMAGE: 'agent' }, prefix })
  expect(said.found('dns')).toMatchObject({
    standing: 'broken',
    says: '192.0.2.53 has no route from this machine, 2001:db8::53 has no route from this machine',
    fix: expect.stringContaining('--network') as string,
  })
})

test('those of the system are unresponsive: the command still ends in time', async ({ skip }) => {
  skip(!isRoot, 'needs root, to give it name servers of its own')
  const network = createNetworkNamespace()
  onTestFinished(() => network.remove())
  const conf = `nameserver ${network.hostAddress}\nsearch a.test b.test\noptions ndots:5\n`
  const unresponsive = createSocket('udp4').bind(53, network.hostAddress)
  onTestFinished(() => void unresponsive.close())
  await once(unresponsive, 'listening')
  const prefix = [...network.prefix, ...withResolvConf(conf)]
  const said = await examine({ env: agentOf(PLATFORM), prefix })
  expect(said.code).toBe(1)
  expect(said.broken).toEqual(expect.arrayContaining(['dns', 'platform']))
})
