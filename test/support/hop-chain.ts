// A chain of networks of their own: a client, three routers and a server, joined by cables, with IPv4 and
// IPv6. What a packet meets on its way can be set on each of them.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'

/** The hosts of the chain, in the order in which packets of the client meet them. */
export const HOSTS = ['client', 'r1', 'r2', 'r3', 'server'] as const
export type Host = (typeof HOSTS)[number]
export type Family = 'IPv4' | 'IPv6'

/** Addresses of the hops as a trace from the client meets them: the sides of the cables that face it. */
export const HOPS: Record<Family, readonly [r1: string, r2: string, r3: string, server: string]> = {
  IPv4: ['10.77.1.2', '10.77.2.2', '10.77.3.2', '10.77.4.2'],
  IPv6: ['fd77:1::2', 'fd77:2::2', 'fd77:3::2', 'fd77:4::2'],
}

export interface HopChain extends Disposable {
  /** Put before a command line, it runs the command on that host. */
  prefix(host: Host): string[]
  /** Runs a command on the host and gives what it printed. */
  run(host: Host, ...command: string[]): string
  /** Sets a number or text of /proc/sys/net on the host, as `ipv4.icmp_ratelimit`. */
  set(host: Host, key: string, value: string | number): void
  /** Puts these rules into the host's firewall, in place of those before; nft(8). */
  firewall(host: Host, rules: string): void
}

/** Cables: on one end the interface `after`, on the other `before`; networks 10.77.<n>.0/24, fd77:<n>::/64. */
const CABLES = HOSTS.slice(0, -1).map((from, index) => ({
  from,
  to: HOSTS[index + 1] as Host,
  network: index + 1,
}))

/** Makes the chain; needs root and iproute2. */
export function createHopChain(): HopChain {
  const tag = randomBytes(3).toString('hex')
  const nameOf = (host: Host) => `vedette-${tag}-${host}`
  const prefix = (host: Host) => ['ip', 'netns', 'exec', nameOf(host)]
  const command = (program: string, args: readonly string[], input?: string) =>
    execFileSync(program, args, { encoding: 'utf8', stdio: ['pipe', 'pipe', 'pipe'], input })
  const run = (host: Host, ...args: string[]) => {
    const [program = '', ...rest] = [...prefix(host), ...args]
    return command(program, rest)
  }
  const chain: HopChain = {
    prefix,
    run,
    set: (host, key, value) =>
      void run(host, 'sh', '-c', `echo '${value}' > /proc/sys/net/${key.replaceAll('.', '/')}`),
    firewall: (host, rules) =>
      void command(
        'ip',
        ['netns', 'exec', nameOf(host), 'nft', '-f', '-'],
        `flush ruleset\n${rules}`,
      ),
    [Symbol.dispose]() {
      for (const host of HOSTS) command('ip', ['netns', 'delete', nameOf(host)])
    },
  }
  for (const host of HOSTS) {
    command('ip', ['netns', 'add', nameOf(host)])
    command('ip', ['-n', nameOf(host), 'link', 'set', 'lo', 'up'])
  }
  for (const cable of CABLES) lay(cable, nameOf, command)
  for (const [at, host] of HOSTS.entries()) setUp(chain, host, at)
  return chain
}

function lay(
  { from, to, network }: (typeof CABLES)[number],
  nameOf: (host: Host) => string,
  command: (program: string, args: readonly string[]) => string,
): void {
  const [a, b] = [nameOf(from), nameOf(to)]
  command('ip', `-n ${a} link add after type veth peer name before netns ${b}`.split(' '))
  for (const [name, side, end] of [
    [a, 'after', 1],
    [b, 'before', 2],
  ] as const) {
    command('ip', `-n ${name} address add 10.77.${network}.${end}/24 dev ${side}`.split(' '))
    const six = `-n ${name} -6 address add fd77:${network}::${end}/64 dev ${side} nodad`
    command('ip', six.split(' '))
    command('ip', ['-n', name, 'link', 'set', side, 'up'])
  }
}

/** Routes of one host, and what makes a router of it. */
function setUp(chain: HopChain, host: Host, at: number): void {
  const forward = `echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding`
  // As routers answer, and hosts are not held back by the limit that Linux has by itself.
  const unlimited =
    'echo 0 > /proc/sys/net/ipv4/icmp_ratelimit; echo 0 > /proc/sys/net/ipv6/icmp/ratelimit'
  // As Docker sets it: everybody may send echoes.
  const echoes = `echo '0 2147483647' > /proc/sys/net/ipv4/ping_group_range`
  const isRouter = at > 0 && at < HOSTS.length - 1
  chain.run(host, 'sh', '-c', [isRouter ? forward : 'true', unlimited, echoes].join('; '))
  for (const { network } of CABLES) {
    // Cable n joins the hosts n - 1 and n.
    if (network === at || network === at + 1) continue
    const isBehind = network > at
    const via = isBehind ? [at + 1, 2] : [at, 1]
    chain.run(host, 'ip', 'route', 'add', `10.77.${network}.0/24`, 'via', `10.77.${via.join('.')}`)
    chain.run(
      host,
      'ip',
      '-6',
      'route',
      'add',
      `fd77:${network}::/64`,
      'via',
      `fd77:${via.join('::')}`,
    )
  }
}
