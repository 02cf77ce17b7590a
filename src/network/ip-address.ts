// Parses addresses and hosts. Every spelling that a resolver or kernel would accept becomes one literal, so that the
// network policy evaluates the address that is dialled.
import { isIP, isIPv6 } from 'node:net'
import type { Family } from './dial.ts'

/** An IPv4 address as an unsigned 32-bit number, or -1 when the text is not a dotted quad. */
export function ipv4Word(text: string): number {
  let word = 0
  let part = -1
  let dots = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === 46) {
      if (part < 0 || ++dots > 3) return -1
      word = word * 256 + part
      part = -1
    } else if (code >= 48 && code <= 57) {
      part = part < 0 ? code - 48 : part * 10 + code - 48
      if (part > 255) return -1
    } else {
      return -1
    }
  }
  return dots === 3 && part >= 0 ? word * 256 + part : -1
}

/** Four unsigned 32-bit numbers. */
export type Words = readonly [number, number, number, number]

/** An IPv6 address as four words, its zone ignored; undefined when the text is not one. */
export function ipv6Words(text: string): Words | undefined {
  const zone = text.indexOf('%')
  const bare = zone < 0 ? text : text.slice(0, zone)
  if (!isIPv6(bare)) return undefined
  const [head, tail] = bare.split('::') as [string, string?]
  const front = hextets(head)
  const back = tail === undefined ? [] : hextets(tail)
  const all = [...front, ...Array<number>(8 - front.length - back.length).fill(0), ...back]
  const word = (at: number) => (all[at] as number) * 65_536 + (all[at + 1] as number)
  return [word(0), word(2), word(4), word(6)]
}

function hextets(text: string): number[] {
  if (text === '') return []
  return text.split(':').flatMap((part) => {
    if (!part.includes('.')) return [Number.parseInt(part, 16)]
    const word = ipv4Word(part)
    return [Math.floor(word / 65_536), word % 65_536]
  })
}

/** The sixteen bytes at `at` in the short form (RFC 5952): a mapped IPv4 address keeps its dots. */
export function ipv6Text(bytes: Buffer, at = 0): string {
  const groups = Array.from({ length: 8 }, (_, index) => bytes.readUInt16BE(at + 2 * index))
  const isMapped = groups[5] === 0xffff && groups.slice(0, 5).every((group) => group === 0)
  if (isMapped) return `::ffff:${bytes.subarray(at + 12, at + 16).join('.')}`
  let [start, longest] = [0, 1]
  for (let from = 0; from < 8; from++) {
    let run = 0
    while (from + run < 8 && groups[from + run] === 0) run++
    if (run > longest) [start, longest] = [from, run]
  }
  const hex = groups.map((group) => group.toString(16))
  if (longest < 2) return hex.join(':')
  return `${hex.slice(0, start).join(':')}::${hex.slice(start + longest).join(':')}`
}

/** An IPv6 address in the short form, without its zone; any other text as it is. */
export function shortIpv6(text: string): string {
  const words = ipv6Words(text)
  if (words === undefined) return text
  const bytes = Buffer.alloc(16)
  for (const [at, word] of words.entries()) bytes.writeUInt32BE(word, 4 * at)
  return ipv6Text(bytes)
}

// A name whose last label starts with a letter cannot be an address in any spelling.
const PLAIN_NAME = /^([a-z0-9_-]+\.)*[a-z_][a-z0-9_-]*\.?$/i
// Characters that end the host of a URL, or that its parser drops.
// oxlint-disable-next-line no-control-regex
const NOT_A_HOST = /[\u0000-\u0020/?#@:\\]/

/**
 * The host as an address literal for a socket: brackets, decimal, octal, hex and
 * short forms, percent-encoding, full-width digits and trailing dots are read as WHATWG URL reads them.
 * Undefined when it is a name.
 */
export function literalOf(host: string): string | undefined {
  if (isIP(host) !== 0) return host
  if (PLAIN_NAME.test(host)) return undefined
  if (host.startsWith('[') && host.endsWith(']')) {
    const inner = host.slice(1, -1).replace(/%25/, '%')
    return isIPv6(inner) ? inner : undefined
  }
  const parsed = parsedHost(host)
  return parsed !== undefined && isIP(parsed) !== 0 ? parsed : undefined
}

/** The name in its wire form (lower case, IDNA); undefined when it cannot be a name. */
export function nameOf(host: string): string | undefined {
  return PLAIN_NAME.test(host) ? host.toLowerCase() : parsedHost(host)
}

function parsedHost(host: string): string | undefined {
  if (host === '' || NOT_A_HOST.test(host)) return undefined
  return URL.parse(`http://${host}/`)?.hostname
}

/** The family of a literal. */
export function familyOf(address: string): Family {
  return isIP(address) === 6 ? 'IPv6' : 'IPv4'
}
