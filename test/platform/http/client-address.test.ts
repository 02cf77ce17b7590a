// Aim: a typing mistake in TRUSTED_PROXIES is refused, and never trusts more senders than intended.
import { expect, test } from 'vitest'
import { createClientAddress } from '../../../src/platform/http/client-address.ts'

test('addresses and networks are taken', () => {
  const good = ['10.0.0.0/8', '192.0.2.7', '::1', '2001:db8::/32', '0.0.0.0/0']
  expect(() => createClientAddress(good)).not.toThrow()
})

test.each([
  ['an empty prefix, which would be all the world', '10.0.0.0/'],
  ['a prefix in hexadecimal', '10.0.0.0/0x8'],
  ['two prefixes', '10.0.0.0/8/9'],
  ['a prefix longer than the address', '10.0.0.0/33'],
  ['a name', 'balancer.example.org'],
])('%s is refused', (_sentence, one) => {
  expect(() => createClientAddress([one])).toThrow(Error)
})
