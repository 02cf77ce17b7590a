// Aim: without a network or name servers no monitor reports a failure of its target; the agent logs one warning.
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

interface CheckedResult {
  monitorName: string
  verdict: string
  failures: { code: string }[]
}

/** The failures by the name of the monitor, as `vedette check` reports them behind the prefix. */
async function check(prefix: readonly string[], monitors: readonly object[], env = {}) {
  const file = temporaryFile('monitors.yaml', asYaml(monitors))
  const { stdout } = await startVedette(['check', file, '--json'], env, prefix).ended
  const results = stdout.trim().split('\n')
  return Object.fromEntries(
    results.map((line) => {
      const { monitorName, verdict, failures } = JSON.parse(line) as CheckedResult
      return [monitorName, [verdict, ...failures.map(({ code }) => code)]]
    }),
  )
}
/** The same of the first monitor alone, by the resolver of the system. */
const checkByOs = (prefix: readonly string[], [first]: readonly object[]) =>
  check(prefix, [first as object], { USE_OS_DNS_RESOLVER: 'true' })

const allOf = (monitors: readonly { name: string }[], ...said: string[]) =>
  Object.fromEntries(monitors.map(({ name }) => [name, said]))

/** A network of its own whose resolv.conf names a server on our side of the cable. */
function networkWithResolver() {
  const network = createNetworkNamespace()
  onTestFinished(() => network.remove())
  const conf = `nameserver ${network.hostAddress}\n`
  return { network, prefix: [...network.prefix, ...withResolvConf(conf)] }
}

describe.skipIf(cannotRun !== undefined)(`the agent’s own network ${cannotRun ?? ''}`, () => {
  const LOOPBACK = ['unshare', '-n', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh']
  const UNREACHABLE = ['errored', 'NETWORK_UNREACHABLE']

  test('with nothing but a loopback, nothing is said about targets and name servers', async () => {
    const servers = [...dnsMonitors, namedServer('192.0.2.53')]
    const byName = monitorsOf('www.zone.example')
    for (const monitors of [monitorsOf('192.0.2.1'), byName, servers]) {
      expect(await check(LOOPBACK, monitors)).toEqual(allOf(monitors, ...UNREACHABLE))
    }
    expect(await checkByOs(LOOPBACK, byName)).toEqual({ URL: UNREACHABLE })
    // Targets on the loopback are still watched.
    const local = monitorsOf('127.0.0.1').slice(0, 1)
    expect(await check(LOOPBACK, local)).toEqual({ URL: ['failed', 'CONNECT_REFUSED'] })
  })

  test('with an address and no route, nothing is said either', async () => {
    const { network, prefix: withResolver } = networkWithResolver()
    const others = [...dnsMonitors, namedServer(network.hostAddress)]
    const monitors = [...monitorsOf('192.0.2.1'), ...others]
    const bare = [...withResolver, 'sh', '-c', 'ip route flush table main && exec "$@"', 'sh']
    expect(await check(bare, monitors)).toEqual(allOf(monitors, ...UNREACHABLE))
  })

  const ERRORED = ['errored', 'RESOLVER_UNREACHABLE']
  const byName = [...monitorsOf('www.zone.example'), ...dnsMonitors]

  test('without its name server nothing is said about names; a server that is named, and addresses, are watched', async () => {
    const { network, prefix } = networkWithResolver()
    const request = { hostname: network.hostAddress, port: 9 }
    const others = [namedServer(network.hostAddress), { name: 'address', type: 'TCP', request }]
    expect(await check(prefix, [...byName, ...others])).toEqual({
      ...allOf(byName, ...ERRORED),
      ...allOf(others, 'failed', 'CONNECT_REFUSED'),
    })
  })

  test.each<[string, Zone]>([
    ['refuses everything', { '*': 'REFUSED' }],
    ['does not answer', { '*': 'silent' }],
  ])('with a name server that %s, nothing is said about names', async (_, zone) => {
    const { network, prefix } = networkWithResolver()
    await using _server = await startDnsServer(zone, { host: network.hostAddress, port: 53 })
    expect(await check(prefix, byName)).toEqual(allOf(byName, ...ERRORED))
    expect(await checkByOs(prefix, byName)).toEqual({ URL: ERRORED })
  })

  test('a name server that fails with everything is about the names', async () => {
    const { network, prefix } = networkWithResolver()
    const at = { host: network.hostAddress, port: 53 }
    await using _server = await startDnsServer({ '*': 'SERVFAIL' }, at)
    const [url, , tcp] = byName
    const failed = ['failed', 'DNS_SERVER_FAILED']
    const expected = { URL: failed, TCP: failed, DNS: ['failed', 'DNS_RESPONSE_CODE'] }
    expect(await check(prefix, [url, tcp, dnsMonitors[0]] as object[])).toEqual(expected)
  })

  test('of a name server that goes and comes back the agent logs one warning and one recovery', async () => {
    const { network, prefix } = networkWithResolver()
    const request = { hostname: 'www.zone.example', port: 9 }
    const monitors = Array.from({ length: 20 }, (_, n) => ({ name: `m${n}`, type: 'TCP', request }))
    const file = temporaryFile('monitors.yaml', asYaml(monitors))
    const env = { MONITORS_FILE: file, DATA_DIR: temporaryFolder() }
    const agent = launchAgentProcess({ ...env, AGENT_HEALTH_PORT: '8081' }, prefix)
    onTestFinished(async () => {
      agent.child.kill('SIGTERM')
      await agent.ended
    })
    const ask = async (path: string): Promise<unknown> =>
      (await fetch(`http://${network.address}:8081${path}`)).json()
    await agent.line(({ code }) => code === 'RESOLVER_UNREACHABLE')
    const warning = expect.stringContaining('RESOLVER_UNREACHABLE') as string
    expect(await ask('/-/readiness')).toMatchObject({ status: 'ready', warnings: [warning] })
    expect(await ask('/health')).toMatchObject({ network: { problem: 'RESOLVER_UNREACHABLE' } })
    const results = () => agent.lines.flatMap(({ result }) => (result as CheckedResult) ?? [])
    const count = (verdict: string) => results().filter((one) => one.verdict === verdict).length
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
})
