// Checks whether this machine has a network at all. Without one, nothing is known about any target.
import { readFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { failure, type Failure } from '../contract/failure.ts'

/** Link-local addresses, which no router forwards (RFC 3927, RFC 4291). */
const LINK_LOCAL = /^(?:169\.254\.|fe[89ab][\da-f]:)/i
/** Destinations of `/proc/net/ipv6_route` within the local link: link-local and multicast. */
const LOCAL_IPV6 = /^(?:fe[89ab]|ff)/

/**
 * Whether no interface but the loopback is up with an address, or no route leads anywhere. Link-local addresses
 * do not count.
 */
export function isCutOff(): boolean {
  return !hasAddress() || !hasRoute()
}

function hasAddress(): boolean {
  return Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .some(({ internal, address }) => !internal && !LINK_LOCAL.test(address))
}

/** Whether the kernel has a route, in any of its tables; true where it does not show them. */
function hasRoute(): boolean {
  try {
    return (
      hasIpv4Route(readFileSync('/proc/net/fib_trie', 'utf8')) ||
      hasIpv6Route(readFileSync('/proc/net/ipv6_route', 'utf8'))
    )
  } catch {
    return true
  }
}

/** A destination (`|-- 10.0.0.0`) is in the line before its routes (`/8 link UNICAST`). */
function hasIpv4Route(trie: string): boolean {
  let destination = ''
  return trie.split('\n').some((line) => {
    destination = /\|-- (\S+)/.exec(line)?.[1] ?? destination
    return line.includes('UNICAST') && !LINK_LOCAL.test(destination)
  })
}

/** A line has ten columns: the destination first, the interface last. */
function hasIpv6Route(table: string): boolean {
  return table
    .split('\n')
    .some((line) => line !== '' && !LOCAL_IPV6.test(line) && !/\slo$/.test(line))
}

/** The failure of all network access on a machine without a network. */
export function cutOffFailure(details?: Record<string, unknown>): Failure {
  const message = 'this agent’s machine has no network: only a loopback address, or no route'
  return failure('NETWORK_UNREACHABLE', message, details)
}
