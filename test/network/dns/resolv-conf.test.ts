// Aim: resolv.conf is read as by the system's resolver, and invalid lines are ignored.
import { expect, test } from 'vitest'
import { parseResolvConf } from '../../../src/network/dns/resolv-conf.ts'

const DEFAULTS = { servers: ['127.0.0.1'], search: [], ndots: 1, timeoutMs: 5000, attempts: 2 }
const SET = { timeoutMs: 1000, attempts: 3, ndots: 5 }
const MOST = { timeoutMs: 30_000, attempts: 5, ndots: 15 }

test.each<[string, string, object]>([
  ['nothing: this host', '', {}],
  ['a server', 'nameserver 192.0.2.1\n', { servers: ['192.0.2.1'] }],
  [
    'servers in their order, at most three',
    'nameserver 192.0.2.1\nnameserver ::1\nnameserver 192.0.2.3\nnameserver 192.0.2.4',
    { servers: ['192.0.2.1', '::1', '192.0.2.3'] },
  ],
  ['a scope', 'nameserver fe80::1%eth0', { servers: ['fe80::1%eth0'] }],
  ['comments', '# nameserver 192.0.2.1\nnameserver 192.0.2.2 ; x', { servers: ['192.0.2.2'] }],
  ['a name instead of an address', 'nameserver ns.test', {}],
  ['search domains', 'search A.test b.test.', { search: ['a.test', 'b.test'] }],
  ['options', 'options timeout:1 attempts:3 ndots:5 rotate', SET],
  ['large options', 'options timeout:99 attempts:99 ndots:99', MOST],
  ['options that are none', 'options timeout:x attempts: ndots:-1', { attempts: 1 }],
  ['noise', '\u0000\n\n  \nnameserver\noptions\n', {}],
])('%s', (_, text, expected) => {
  expect(parseResolvConf(text)).toEqual({ ...DEFAULTS, ...expected })
})
