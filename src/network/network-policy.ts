// Network policy: the addresses that the agent may dial. The agent runs in a private network, so a monitor must not
// reach a cloud's metadata service or a network that the operator has blocked. The arithmetic is our own: `ipaddr.js`
// takes twice the time of a check, `net.BlockList` three times, and neither knows addresses that carry IPv4 ones.
import { isIP } from 'node:net'
import { ipv4Word, ipv6Words, type Words } from './ip-address.ts'
import { targetFailure } from './target-failure.ts'

/** Why an address must not be dialled. */
export interface Denial {
  /** The network of the address, as written in the settings. */
  network: string
  origin: 'default' | 'BLOCKED_NETWORKS' | 'not an address'
}

export interface NetworkPolicy {
  /** Why the literal must not be dialled, or undefined when it may. Anything else than a literal is denied. */
  denial(address: string): Denial | undefined
}

/** Link-local networks and the metadata services of the large clouds. */
const DENIED_BY_DEFAULT: readonly string[] = [
  '169.254.0.0/16',
  'fe80::/10',
  'fd00:ec2::254',
  'fd20:ce::254',
  '100.100.100.200',
  '168.63.129.16',
  '192.0.0.192',
]

/** One word for IPv4, four for IPv6. */
interface Network {
  words: readonly number[]
  masks: readonly number[]
  denial: Denial
}

/**
 * Compiles the policy. `allowed` has precedence over all denials. Addresses that carry an
 * IPv4 address (mapped, compatible, translated, 6to4, NAT64, Teredo) are evaluated by that one too.
 * Throws when an entry is not a network; check it with `networkProblem` before.
 */
export function createNetworkPolicy(settings: {
  blocked: readonly string[]
  allowed: readonly string[]
}): NetworkPolicy {
  const denied = [
    ...DENIED_BY_DEFAULT.map((text) => networkOf(text, 'default')),
    ...settings.blocked.map((text) => networkOf(text, 'BLOCKED_NETWORKS')),
  ]
  const allowed = settings.allowed.map((text) => networkOf(text, 'default'))

  const check = (words: readonly number[]): Denial | undefined => {
    if (find(allowed, words) !== undefined) return undefined
    const found = find(denied, words)?.denial
    if (found !== undefined || words.some((word) => word !== 0)) return found
    // Connecting to 0.0.0.0 or :: connects to this host.
    return check(words.length === 1 ? [0x7f000001] : [0, 0, 0, 1])
  }
  return {
    denial(address) {
      const word = ipv4Word(address)
      if (word >= 0) return check([word])
      const words = ipv6Words(address)
      if (words === undefined) return { network: address, origin: 'not an address' }
      if (isMapped(words)) return check([words[3]])
      return (
        check(words) ??
        embedded(words)
          .map((one) => check([one]))
          .find((found) => found !== undefined)
      )
    },
  }
}

/** Throws a TargetFailure (ADDRESS_BLOCKED) when the policy forbids the address. */
export function permit(policy: NetworkPolicy, address: string, host: string): void {
  const denial = policy.denial(address)
  if (denial === undefined) return
  const by =
    denial.origin === 'default'
      ? `${denial.network} is denied by default; ALLOWED_NETWORKS can allow it`
      : `${denial.network} is listed in ${denial.origin}`
  const what = address === host ? address : `${address} (${host})`
  throw targetFailure('ADDRESS_BLOCKED', `the network policy forbids ${what}: ${by}`, {
    host,
    address,
    network: denial.network,
  })
}

/** The problem of an entry of BLOCKED_NETWORKS or ALLOWED_NETWORKS, or undefined. */
export function networkProblem(text: string): string | undefined {
  const parsed = parse(text)
  return typeof parsed === 'string' ? parsed : undefined
}

function networkOf(text: string, origin: Denial['origin']): Network {
  const parsed = parse(text)
  if (typeof parsed === 'string') throw new TypeError(parsed)
  const { words, bits } = parsed
  const all = masks(bits, words.length)
  // A mapped network is a network of IPv4 addresses, also for the kernel.
  const from = words.length === 4 && bits >= 96 && isMapped(words) ? 3 : 0
  return { words: words.slice(from), masks: all.slice(from), denial: { network: text, origin } }
}

/** Parses one entry, `address` or `address/prefix`; returns a string if it is invalid. */
function parse(text: string): { words: readonly number[]; bits: number } | string {
  const [address = '', prefix, ...rest] = text.split('/')
  const version = address.includes('%') ? 0 : isIP(address)
  if (version === 0 || rest.length > 0) {
    return `"${text}" is not a network; write an address or a CIDR block, like 10.0.0.0/8 or fd00::/8`
  }
  const width = version === 4 ? 32 : 128
  if (prefix !== undefined && (!/^\d{1,3}$/.test(prefix) || Number(prefix) > width)) {
    return `"${text}" has no valid prefix length; after the slash comes a number from 0 to ${width}`
  }
  const words = version === 4 ? [ipv4Word(address)] : (ipv6Words(address) as Words)
  const bits = prefix === undefined ? width : Number(prefix)
  const mask = masks(bits, words.length)
  if (words.some((word, at) => (word & (mask[at] as number)) >>> 0 !== word)) {
    return `"${text}" has bits set beyond its prefix; write the network's first address, or leave the prefix out for one address`
  }
  return { words, bits }
}

function masks(bits: number, count: number): number[] {
  return Array.from({ length: count }, (_, at) => {
    const own = Math.min(32, Math.max(0, bits - at * 32))
    return own === 0 ? 0 : (0xffffffff << (32 - own)) >>> 0
  })
}

function find(networks: readonly Network[], words: readonly number[]): Network | undefined {
  return networks.find(
    (one) =>
      one.words.length === words.length &&
      words.every((word, at) => (word & (one.masks[at] as number)) >>> 0 === one.words[at]),
  )
}

function isMapped(words: readonly number[]): boolean {
  return words[0] === 0 && words[1] === 0 && words[2] === 0xffff
}

/** The IPv4 addresses embedded in an IPv6 address. */
function embedded([a, b, c, d]: Words): number[] {
  if (a === 0 && b === 0 && c === 0) return d > 1 ? [d] : [] // compatible, RFC 4291 2.5.5.1
  if (a === 0 && b === 0 && c === 0xffff0000) return [d] // translated, RFC 2765
  if (a >>> 16 === 0x2002) return [join16(a, b >>> 16)] // 6to4, RFC 3056
  if (a === 0x20010000) return [b, ~d >>> 0] // Teredo server and client, RFC 4380
  if (a !== 0x0064ff9b) return []
  if (b === 0 && c === 0) return [d] // NAT64, RFC 6052
  if (b >>> 16 !== 1) return []
  // NAT64 for local use, RFC 8215: the position depends on the prefix, /48, /56, /64 or /96 (RFC 6052 2.2).
  const bytes = [b, c, d].flatMap((word) => [24, 16, 8, 0].map((shift) => (word >>> shift) & 255))
  const quads = [
    [2, 3, 5, 6],
    [3, 5, 6, 7],
    [5, 6, 7, 8],
    [8, 9, 10, 11],
  ]
  // Zero is padding of the other layouts, not an address.
  return quads
    .map((at) => at.reduce((word, byte) => word * 256 + (bytes[byte] as number), 0))
    .filter((word) => word !== 0)
}

function join16(high: number, low: number): number {
  return (high & 0xffff) * 65_536 + low
}
