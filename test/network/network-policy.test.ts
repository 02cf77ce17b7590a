// Aim: no spelling and no embedding of a denied address passes the network policy, and it obeys BLOCKED_NETWORKS and
// ALLOWED_NETWORKS exactly.
import { describe, expect, test } from 'vitest'
import { literalOf } from '../../src/network/ip-address.ts'
import { createNetworkPolicy, networkProblem } from '../../src/network/network-policy.ts'

const plain = createNetworkPolicy({ blocked: [], allowed: [] })

describe('by default', () => {
  test.each([
    ['link-local', '169.254.0.1'],
    ['the metadata address', '169.254.169.254'],
    ['link-local, version 6', 'fe80::1'],
    ['link-local with a zone', 'fe80::1%eth0'],
    ['the end of link-local', 'febf:ffff::1'],
    ['metadata, version 6, Amazon', 'fd00:ec2::254'],
    ['metadata, version 6, Google', 'fd20:ce::254'],
    ['metadata, Alibaba', '100.100.100.200'],
    ['wire server, Azure', '168.63.129.16'],
    ['metadata, Oracle', '192.0.0.192'],
    ['IPv4-mapped', '::ffff:169.254.169.254'],
    ['IPv4-mapped in hex', '::ffff:a9fe:a9fe'],
    ['IPv4-compatible', '::169.254.169.254'],
    ['IPv4-translated', '::ffff:0:169.254.169.254'],
    ['6to4', '2002:a9fe:a9fe::1'],
    ['NAT64', '64:ff9b::169.254.169.254'],
    ['local NAT64, /48', '64:ff9b:1:a9fe:a9:fe00::'],
    ['local NAT64, /56', '64:ff9b:1:a9:fe:a9fe::'],
    ['local NAT64, /64', '64:ff9b:1:0:a9:fea9:fe00:0'],
    ['local NAT64, /96', '64:ff9b:1::169.254.169.254'],
    ['Teredo client', '2001:0:102:304:0:0:5601:5601'],
    ['Teredo server', '2001:0:a9fe:a9fe::'],
    ['a text that is no address', 'localhost'],
  ])('%s is denied: %s', (_, address) => {
    expect(plain.denial(address)).toBeDefined()
  })

  test.each([
    ['loopback', '127.0.0.1'],
    ['loopback, version 6', '::1'],
    ['this host', '0.0.0.0'],
    ['a private network', '10.1.2.3'],
    ['a unique local address', 'fd12::1'],
    ['just below link-local', '169.253.255.255'],
    ['just above link-local', '169.255.0.0'],
    ['next to the metadata address', 'fd00:ec2::253'],
    ['the world', '93.184.216.34'],
    ['the world, version 6', '2606:2800:220:1::1'],
    ['mapped world', '::ffff:93.184.216.34'],
  ])('%s is allowed: %s', (_, address) => {
    expect(plain.denial(address)).toBeUndefined()
  })
})

describe('as configured', () => {
  const policy = createNetworkPolicy({
    blocked: '10.0.0.0/8 127.0.0.0/8 2001:db8::/33 ::ffff:203.0.113.0/120 198.51.100.7'.split(' '),
    allowed: ['10.1.0.0/16', '169.254.169.254', 'fe80::/10'],
  })
  test.each([
    ['blocked', '10.2.0.1', '10.0.0.0/8'],
    ['blocked and mapped', '::ffff:10.2.0.1', '10.0.0.0/8'],
    ['0.0.0.0 leads to the loopback that is blocked', '0.0.0.0', '127.0.0.0/8'],
    ['within odd prefixes', '2001:db8:7fff::1', '2001:db8::/33'],
    ['a mapped network is one of IPv4', '203.0.113.9', '::ffff:203.0.113.0/120'],
    ['a single address', '198.51.100.7', '198.51.100.7'],
  ])('%s: %s', (_, address, network) => {
    expect(policy.denial(address)).toEqual({ network, origin: 'BLOCKED_NETWORKS' })
  })

  test.each([
    ['allowed within blocked', '10.1.2.3'],
    ['allowed and mapped', '::ffff:10.1.2.3'],
    ['allowed against the default', '169.254.169.254'],
    ['allowed, version 6', 'fe80::1%eth0'],
    ['outside an odd prefix', '2001:db8:8000::1'],
    ['next to a single address', '198.51.100.8'],
  ])('%s: %s', (_, address) => {
    expect(policy.denial(address)).toBeUndefined()
  })

  test('to allow the one metadata address does not allow its neighbours', () => {
    expect(policy.denial('169.254.169.253')?.origin).toBe('default')
  })
})

describe('entries', () => {
  test.each(`10.0.0.0/8 10.0.0.1 0.0.0.0/0 ::/0 fd00::/8 ::1 ::ffff:10.0.0.0/104`.split(' '))(
    '%s is a network',
    (text) => {
      expect(networkProblem(text)).toBeUndefined()
    },
  )
  test.each([
    ['', 'is not a network'],
    ['example.com', 'is not a network'],
    ['10.0.0/8', 'is not a network'],
    ['10.0.0.0/8/9', 'is not a network'],
    ['fe80::1%eth0', 'is not a network'],
    ['10.0.0.0/33', 'from 0 to 32'],
    ['fd00::/129', 'from 0 to 128'],
    ['10.0.0.0/', 'prefix length'],
    ['10.0.0.0/-1', 'prefix length'],
    ['10.0.0.1/8', 'beyond its prefix'],
    ['fd00::1/8', 'beyond its prefix'],
  ])('%s is none', (text, why) => {
    expect(networkProblem(text)).toContain(why)
    expect(() => createNetworkPolicy({ blocked: [text], allowed: [] })).toThrow(why)
  })
})

describe('spellings of a host', () => {
  test.each(
    `169.254.169.254 2852039166 0xa9fea9fe 0xA9.0xFE.0xA9.0xFE 0251.0376.0251.0376 169.16689662 169.254.43518 169.254.169.254. %31%36%39.254.169.254 １６９.２５４.１６９.２５４ 169。254。169。254 [::ffff:169.254.169.254] ::ffff:a9fe:a9fe [fe80::1%25lo]`.split(
      ' ',
    ),
  )('%s ends in a literal that is denied', (host) => {
    const literal = literalOf(host)
    expect(literal).toBeDefined()
    expect(plain.denial(literal as string)).toBeDefined()
  })

  test.each(['127.1', '0177.1', '0x7f.1', '017700000001', '[::1]'])('%s is loopback', (host) => {
    expect(['127.0.0.1', '::1']).toContain(literalOf(host))
  })

  const names = ['', 'a b', 'x', 'example.com', 'a.b.c.', '1.example', '_srv._tcp.example']
  test.each([...names, '1.2.3.4.5', 'user@1.2.3.4', '1.2.3.4:80', '1.2.3.4/x'])(
    '%j is no address',
    (host) => {
      expect(literalOf(host)).toBeUndefined()
    },
  )
})
