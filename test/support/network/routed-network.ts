// A chain of three network namespaces, client – router – target, over IPv4 and IPv6, isolated from all others, in
// which tests inject faults.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'

/** The places of the network. */
export type Place = 'client' | 'router' | 'target'

/** Addresses of one family. */
export interface Addresses {
  /** The router's, on the client's side. */
  router: string
  target: string
  /** An unused address behind the router. */
  nobody: string
}

export interface RoutedNetwork {
  v4: Addresses
  v6: Addresses
  /** Prefix of a command line, to run it there. */
  prefix(place: Place): string[]
  /** Runs commands there, one a line; throws when one fails. */
  run: (place: Place, commands: string) => string
  remove(): void
}

const V4: Addresses = { router: '10.1.0.1', target: '10.2.0.2', nobody: '10.2.0.99' }
const V6: Addresses = { router: 'fd01::1', target: 'fd02::2', nobody: 'fd02::99' }

/**
 * Makes the network; needs root and iproute2. The cables are `near`, client to router, and `far`, router to
 * target, named so at both ends. Unprivileged echoes are forbidden. The router reports missing and prohibiting
 * routes of IPv4 to a sender once a second, after five at once.
 */
export function createRoutedNetwork(): RoutedNetwork {
  const tag = randomBytes(3).toString('hex')
  const names: Record<Place, string> = {
    client: `vedette-c${tag}`,
    router: `vedette-r${tag}`,
    target: `vedette-t${tag}`,
  }
  const prefix = (place: Place) => ['ip', 'netns', 'exec', names[place]]
  const run = (place: Place, commands: string) => {
    const [program = '', ...args] = prefix(place)
    return execFileSync(program, [...args, 'sh', '-ec', commands], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    })
  }
  for (const name of Object.values(names)) execFileSync('ip', ['netns', 'add', name])
  try {
    lay(run, names)
  } catch (error) {
    remove(names)
    throw error
  }
  return { v4: V4, v6: V6, prefix, run, remove: () => remove(names) }
}

function remove(names: Record<Place, string>): void {
  for (const name of Object.values(names)) execFileSync('ip', ['netns', 'delete', name])
}

function lay(run: RoutedNetwork['run'], names: Record<Place, string>): void {
  execFileSync('sh', [
    '-ec',
    `ip -n ${names.client} link add near type veth peer name near netns ${names.router}
     ip -n ${names.router} link add far type veth peer name far netns ${names.target}`,
  ])
  run('client', join('near', '10.1.0.2/24', 'fd01::2/64', '10.1.0.1', 'fd01::1'))
  run('router', join('near', '10.1.0.1/24', 'fd01::1/64'))
  run('router', join('far', '10.2.0.1/24', 'fd02::1/64'))
  run('target', join('far', '10.2.0.2/24', 'fd02::2/64', '10.2.0.1', 'fd02::1'))
  // Linux limits the rate of ICMP errors. icmp_ratelimit=0 does not help: each error would still use up the
  // allowance of its sender, and the router would then suppress the errors of missing and prohibiting routes.
  const unlimited = 'net.ipv4.icmp_ratemask=0 net.ipv6.icmp.ratelimit=0'
  run('target', `sysctl -qw ${unlimited}`)
  // A router also needs seconds to find that a neighbour is missing. With one short try it would miss the target, too,
  // where that is slow to answer: it knows the target from the beginning.
  run(
    'router',
    `sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
     sysctl -qw ${unlimited}
     sysctl -qw net.ipv4.neigh.far.mcast_solicit=1 net.ipv4.neigh.far.retrans_time_ms=50
     sysctl -qw net.ipv6.neigh.far.mcast_solicit=1 net.ipv6.neigh.far.retrans_time_ms=50
     address=$(ip -n ${names.target} -o link show far | sed 's/.*ether \\([0-9a-f:]*\\).*/\\1/')
     ip neigh replace 10.2.0.2 lladdr $address dev far nud permanent
     ip neigh replace fd02::2 lladdr $address dev far nud permanent`,
  )
}

function join(
  device: string,
  v4: string,
  v6: string,
  gateway4?: string,
  gateway6?: string,
): string {
  return `
    ip link set lo up
    ip address add ${v4} dev ${device}
    ip address add ${v6} dev ${device} nodad
    ip link set ${device} up
    ${gateway4 === undefined ? '' : `ip route add default via ${gateway4}`}
    ${gateway6 === undefined ? '' : `ip -6 route add default via ${gateway6}`}`
}
