// Checks whether the system allows this process to send ICMP echoes, and suggests a fix if not.
import { readFileSync } from 'node:fs'

/** The permissions of this process; undefined where the system does not show them. */
export interface EchoRights {
  /** `net.ipv4.ping_group_range`: groups whose processes may open ICMP sockets without privileges. */
  range: string | undefined
  groups: readonly number[]
  /** Effective capabilities, hexadecimal. */
  capabilities: string | undefined
}

const RANGE_FILE = '/proc/sys/net/ipv4/ping_group_range'
const STATUS_FILE = '/proc/self/status'
const EVERYBODY = '0 2147483647'
/** A bit of the capabilities (capabilities(7)). */
const NET_RAW = 13n

export function echoRights(): EchoRights {
  const capabilities = /^CapEff:\s*([0-9a-f]+)$/m.exec(read(STATUS_FILE) ?? '')?.[1]
  const groups = [...new Set([process.getegid?.() ?? 0, ...(process.getgroups?.() ?? [])])]
  return { range: read(RANGE_FILE)?.trim().replace(/\s+/, ' '), groups, capabilities }
}

/**
 * Whether echoes will be refused, as far as is known without a socket: opening one needs native code, which an agent
 * without ICMP monitors never loads.
 */
export function areEchoesForbidden({ range, groups, capabilities }: EchoRights): boolean {
  const [low, high] = range?.split(' ').map(Number) ?? []
  if (low === undefined || high === undefined || capabilities === undefined) return false
  const isRaw = ((BigInt(`0x${capabilities}`) >> NET_RAW) & 1n) === 1n
  return !isRaw && !groups.some((group) => group >= low && group <= high)
}

/** How to allow an agent to send echoes. */
export function echoFix({ range, groups }: EchoRights): string {
  const now =
    range === undefined
      ? ''
      : ` (it is "${range}", and the agent’s groups are ${groups.join(', ')})`
  return [
    'Allow unprivileged ones: set',
    `net.ipv4.ping_group_range="${EVERYBODY}"${now} with sysctl -w, with docker run --sysctl, or in`,
    `Kubernetes with securityContext.sysctls of the pod. Or run the agent as root with the capability`,
    `NET_RAW: docker run --user 0 --cap-add NET_RAW, or in Kubernetes securityContext`,
    `{runAsUser: 0, capabilities: {add: [NET_RAW]}} of the container`,
  ].join(' ')
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
