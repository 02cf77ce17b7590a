// Aim: ICMP errors, and those of our own system, become the codes of ICMP monitors.
import { expect, test } from 'vitest'
import { icmpErrorOf, localError } from '../../../src/monitors/icmp/errors.ts'

const said = (origin: number, type: number, code: number, info = 0) =>
  icmpErrorOf({ errno: 113, origin, type, code, info, offender: '192.0.2.1' }, '192.0.2.9')

test.each([
  [2, 3, 0, 'ICMP_UNREACHABLE'],
  [2, 3, 2, 'ICMP_UNREACHABLE'],
  [2, 3, 9, 'ICMP_PROHIBITED'],
  [2, 11, 0, 'ICMP_TTL_EXCEEDED'],
  [2, 77, 0, 'ICMP_REJECTED'],
  [3, 1, 3, 'ICMP_UNREACHABLE'],
])('origin %i type %i code %i: %s', (origin, type, code, expected) => {
  expect(said(origin, type, code)).toMatchObject({ code: expected, from: '192.0.2.1' })
})

test('the MTU is reported where a packet is too large', () => {
  expect(said(2, 3, 4, 1400)).toMatchObject({ code: 'ICMP_TOO_LARGE', mtu: 1400 })
  expect(said(3, 2, 0, 1280)).toMatchObject({ code: 'ICMP_TOO_LARGE', mtu: 1280 })
  expect(said(2, 3, 4, 0)).not.toHaveProperty('mtu')
})

test('a time stamp is no error', () => expect(said(4, 0, 0)).toBeUndefined())

test.each([
  [0, 'CONNECT_FAILED'],
  [1, 'ADDRESS_BLOCKED'],
  [13, 'ADDRESS_BLOCKED'],
  [22, 'CONNECT_FAILED'],
  [90, 'ICMP_TOO_LARGE'],
  [99, 'CONNECT_UNREACHABLE'],
  [101, 'CONNECT_UNREACHABLE'],
  [113, 'CONNECT_UNREACHABLE'],
  [105, 'RESOURCES_EXHAUSTED'],
])('errno %i of our own system: %s', (errno, code) => {
  expect(localError(errno, '2001:db8::1').code).toBe(code)
})
