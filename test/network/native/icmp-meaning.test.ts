// Aim: every ICMP error has a meaning, and the known ones have that of the RFCs.
import { expect, test } from 'vitest'
import { icmpMeaning } from '../../../src/network/native/icmp-meaning.ts'

test.each([
  ['IPv4', 3, 0, 'unreachable', 'network unreachable', '!N'],
  ['IPv4', 3, 1, 'unreachable', 'host unreachable', '!H'],
  ['IPv4', 3, 2, 'arrived', 'protocol unreachable', '!P'],
  ['IPv4', 3, 3, 'arrived', 'port unreachable', '!p'],
  ['IPv4', 3, 4, 'too-large', 'fragmentation needed', '!F'],
  ['IPv4', 3, 9, 'prohibited', 'network prohibited', '!A'],
  ['IPv4', 3, 13, 'prohibited', 'communication prohibited', '!X'],
  ['IPv4', 3, 200, 'unreachable', 'ICMP type 3 code 200', '!<3-200>'],
  ['IPv4', 11, 0, 'ttl-exceeded', 'TTL exceeded in transit', '!<11-0>'],
  ['IPv4', 11, 1, 'rejected', 'fragment reassembly time exceeded', '!<11-1>'],
  ['IPv4', 77, 0, 'rejected', 'ICMP type 77 code 0', '!<77-0>'],
  ['IPv6', 1, 1, 'prohibited', 'communication prohibited', '!X'],
  ['IPv6', 1, 3, 'unreachable', 'address unreachable', '!H'],
  ['IPv6', 1, 4, 'arrived', 'port unreachable', '!p'],
  ['IPv6', 2, 0, 'too-large', 'packet too big', '!F'],
  ['IPv6', 3, 0, 'ttl-exceeded', 'hop limit exceeded in transit', '!<3-0>'],
  ['IPv6', 4, 0, 'rejected', 'parameter problem', '!<4-0>'],
  ['IPv6', 4, 1, 'arrived', 'protocol unreachable', '!P'],
] as const)('%s type %i code %i: %s, %s (%s)', (family, type, code, kind, name, mark) => {
  expect(icmpMeaning(family, type, code)).toEqual({ kind, name, mark })
})
