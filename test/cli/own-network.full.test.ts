// Aim: on a machine without a network, or without responsive name servers, no monitor of any type reports a failure of
// its target; the agent logs one warning, and one line when it is over.
import { describe, expect, onTestFinished, test } from 'vitest'
import { launchAgentProcess } from '../support/agent/agent-process.ts'
import { startDnsServer, type Zone } from '../support/monitors/dns/dns-server.ts'
import { eventually } from '../support/eventually.ts'
import { missing } from '../support/needs.ts'
import { startVedette } from '../support/platform/platform-process.ts'
import { createNetworkNamespace, withResolvConf } from '../support/network/network-namespace.ts'
import { temporaryFile, temporaryFolder } from '../support/temporary-folder.ts'

const cannotRun = process.getuid?.() === 0 ? missing('ip') : 'needs root, for network namespaces'

const plain = { mode: 'HEALTH', tls: false }
/** Every type of uptime monitor, of one host. */
const monitorsOf = (host: string) => [
  { name: 'URL', type: 'URL', request: { url: `http://${host}/` } },
  { name: 'API', type: 'API', request: { method: 'GET', url: `https://${host}/` } },
  { name: 'TCP', type: 'TCP', request: { hostname: host, port: 80 } },
  { name: 'TCP closed', type: 'TCP', shouldFail: true, request: { hostname: host, port: 80 } },
  { name: 'SSL', type: 'SSL', every: '1m', request: { sslConfig: { hostname: host } } },
  { name: 'GRPC', type: 'GRPC', request: { url: host, port: 80, grpcConfig: plain } },
  { name: 'ICMP', type: 'ICMP', request: { hostname: host, pingCount: 1 } },
  ...['TCP', 'UDP', 'ICMP'].map((protocol) => ({
    name: `TRACEROUTE ${protocol}`,
    type: 'TRACEROUTE',
    every: '30s',
    request: { url: host, protocol },
  })),
]

const query = { query: 'www.zone.example', recordType: 'A' }
const maxResponseTime = 5000
const dnsMonitors = [
  { name: 'DNS', type: 'DNS', maxResponseTime, request: query },
  { name: 'DNS over TCP', type: 'DNS', maxResponseTime, request: { ...query, protocol: 'TCP' } },
]
const namedServer = (nameServer: string) => ({
  name: 'DNS of a server',
  type: 'DNS',
  // Over UDP the refusal may exceed the kernel's rate limit.
  request: { ...query, nameServer, port: 53, protocol: 'TCP' },
})

const asYaml = (monitors: readonly object[]) =>
  JSON.stringify({ monitors: monitors.map((one) => ({ every: '10s', ...one })) })

/** The failures by the name of the monitor, as `vedette check` reports them behind the prefix. */
async function check(prefix: readonly string[], monitors: readonly object[], env = {}) {
  const file = temporaryFile('monitors.yaml', asYaml(monitors))
  const { stdout } = await startVedette(['check', file, '--json'], env, prefix).ended
  const results = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as CheckedResult)
  return Object.fromEntries(
    results.map(({ monitorName, verdict, failures }) => [
      monitorName,
      [verdict, ...failures.map(({ code }) => code)],
    ]),
  )
}

interface CheckedResult {
  monitorName: string
  verdict: string
  failures: { code: string }[]
}

const allOf = (monitors: readonly { name: string }[], ...said: string[]) =>
  Object.fromEntries(monitors.map(({ name }) => [name, said]))

/** A network of its own whose resolv.conf names a server on our side of the cable. */
function networkWithResolver() {
  const network = createNetworkNamespace()
  onTestFinished(() => network.remove())
  const conf = `nameserver ${network.hostAddress}\n`
  return { network, prefix: [...network.prefix, ...withResolvConf(conf)] }
}

describe.skipIf(cannotRun !== undefined)(
  `on a machine with nothing but a loopback ${cannotRun ?? ''}`,
  () => {
    const prefix = ['unshare', '-n', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh']
    const ERRORED = ['errored', 'NETWORK_UNREACHABLE']

    test.each(['192.0.2.1', 'www.zone.example'])('nothing is said about %s', async (host) => {
      const monitors = monitorsOf(host)
      expect(await check(prefix, monitors)).toEqual(allOf(monitors, ...ERRORED))
    })

    test('with an address and no route, nothing is said either', async () => {
      const { network, prefix: withResolver } = networkWithResolver()
      const others = [...dnsMonitors, namedServer(network.hostAddress)]
      const monitors = [...monitorsOf('192.0.2.1'), ...others]
      const bare = [...withResolver, 'sh', '-c', 'ip route flush table main && exec "$@"', 'sh']
      expect(await check(bare, monitors)).toEqual(allOf(monitors, ...ERRORED))
    })

    test('nor about name servers, the system’s or others, nor by getaddrinfo', async () => {
      const monitors = [...dnsMonitors, namedServer('192.0.2.53')]
      expect(await check(prefix, monitors)).toEqual(allOf(monitors, ...ERRORED))
      const [url] = monitorsOf('www.zone.example')
      expect(await check(prefix, [url as object], { USE_OS_DNS_RESOLVER: 'true' })).toEqual({
        URL: ERRORED,
      })
    })

    test('targets on the loopback are still watched', async () => {
      const [url] = monitorsOf('127.0.0.1')
      expect(await check(prefix, [url as object])).toEqual({ URL: ['failed', 'CONNECT_REFUSED'] })
    })
  },
)

describe.skipIf(cannotRun !== undefined)(
  `on a machine whose name server ${cannotRun ?? ''}`,
  () => {
    const ERRORED = ['errored', 'RESOLVER_UNREACHABLE']
    const byName = [...monitorsOf('www.zone.example'), ...dnsMonitors]

    test('is gone, nothing is said about names; a server that is named, and addresses, are watched', async () => {
      const { network, prefix } = networkWithResolver()
      const others = [
        namedServer(network.hostAddress),
        { name: 'address', type: 'TCP', request: { hostname: network.hostAddress, port: 9 } },
      ]
      expect(await check(prefix, [...byName, ...others])).toEqual({
        ...allOf(byName, ...ERRORED),
        'DNS of a server': ['failed', 'CONNECT_REFUSED'],
        address: ['failed', 'CONNECT_REFUSED'],
      })
    })

    test.each<[string, Zone]>([
      ['refuses everything', { '*': 'REFUSED' }],
      ['does not answer', { '*': 'silent' }],
    ])('%s, nothing is said about names', async (_, zone) => {
      const { network, prefix } = networkWithResolver()
      await using _server = await startDnsServer(zone, { host: network.hostAddress, port: 53 })
      expect(await check(prefix, byName)).toEqual(allOf(byName, ...ERRORED))
      const [url] = byName
      expect(await check(prefix, [url as object], { USE_OS_DNS_RESOLVER: 'true' })).toEqual({
        URL: ERRORED,
      })
    })

    test('fails with everything, that is about the names', async () => {
      const { network, prefix } = networkWithResolver()
      const zone: Zone = { '*': 'SERVFAIL' }
      await using _server = await startDnsServer(zone, { host: network.hostAddress, port: 53 })
      const [url, , tcp] = byName
      expect(await check(prefix, [url, tcp, dnsMonitors[0]] as object[])).toEqual({
        URL: ['failed', 'DNS_SERVER_FAILED'],
        TCP: ['failed', 'DNS_SERVER_FAILED'],
        DNS: ['failed', 'DNS_RESPONSE_CODE'],
      })
    })

    test('goes and comes back, the agent logs one warning and one recovery', async () => {
      const { network, prefix } = networkWithResolver()
      const monitors = Array.from({ length: 20 }, (_, index) => ({
        name: `m${index}`,
        type: 'TCP',
        request: { hostname: 'www.zone.example', port: 9 },
      }))
      const file = temporaryFile('monitors.yaml', asYaml(monitors))
      const env = { MONITORS_FILE: file, DATA_DIR: temporaryFolder() }
      const agent = launchAgentProcess({ ...env, AGENT_HEALTH_PORT: '8081' }, prefix)
      onTestFinished(async () => {
        agent.child.kill('SIGTERM')
        await agent.ended
      })
      const ask = async (path: string) => {
        const url = `http://${network.address}:8081${path}`
        return (await fetch(url)).json() as Promise<Record<string, unknown>>
      }
      await agent.line(({ code }) => code === 'RESOLVER_UNREACHABLE')
      expect(await ask('/-/readiness')).toMatchObject({
        status: 'ready',
        warnings: [expect.stringContaining('RESOLVER_UNREACHABLE')],
      })
      expect(await ask('/health')).toMatchObject({ network: { problem: 'RESOLVER_UNREACHABLE' } })
      const results = () => agent.lines.flatMap(({ result }) => (result as CheckedResult) ?? [])
      const verdicts = () => results().map(({ verdict }) => verdict)
      const count = (verdict: string) => verdicts().filter((one) => one === verdict).length
      await eventually(() => count('errored') >= monitors.length)
      expect(count('failed')).toBe(0)
      const zone = { 'www.zone.example': [network.hostAddress] }
      await using _server = await startDnsServer(zone, { host: network.hostAddress, port: 53 })
      await agent.line(({ msg }) => msg === 'this agent’s own network works again')
      expect(await ask('/-/readiness')).toMatchObject({ status: 'ready', warnings: [] })
      expect(await ask('/health')).toMatchObject({ network: null })
      await eventually(() => count('failed') > 0)
      const warnings = agent.lines.filter(({ code }) => code === 'RESOLVER_UNREACHABLE')
      expect(warnings).toHaveLength(1)
    })
  },
)
