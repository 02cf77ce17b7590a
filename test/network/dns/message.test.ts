// Aim: another decoder reads our queries, and the data of every type is formatted as in zone files.
import packet from 'dns-packet'
import { describe, expect, test } from 'vitest'
import { encodeDnsName } from '../../../src/contract/dns/name.ts'
import { DNS_TYPE_NUMBERS } from '../../../src/contract/dns/parameters.ts'
import { encodeQuery } from '../../../src/network/dns/message.ts'
import { decoded } from '../../support/monitors/dns/dns-messages.ts'

const ascii = (text: string) => Buffer.from(text)
const string = (text: string) => Buffer.concat([Buffer.from([text.length]), ascii(text)])
const join = (...parts: Buffer[]) => Buffer.concat(parts)
const hex = (text: string) => Buffer.from(text.replaceAll(' ', ''), 'hex')
const wire = (name: string) => encodeDnsName(name) as Buffer
const service = (...parts: Buffer[]) => join(hex('0001'), wire('.'), ...parts)
const TIMES = hex('00000001 00000002 00000003 00000004 ffffffff')
const SERIAL = { serial: 1, minimum: 4_294_967_295 }
const SIP = { priority: 1, weight: 2, port: 5060, target: 's.test.' }
const PORT = { mandatory: ['alpn', 'port'], alpn: ['h2'], port: 443 }

describe('the query', () => {
  test('is read by another decoder', () => {
    const flags = { recursionDesired: false, checkingDisabled: true, dnssecOk: true, nsid: true }
    const name = wire('Www.Example.')
    const query = encodeQuery({ name, type: 16, class: 3, ednsBytes: 4096, ...flags })
    expect(packet.decode(query)).toMatchObject({
      type: 'query',
      opcode: 'QUERY',
      flag_rd: false,
      flag_cd: true,
      flag_ad: true,
      questions: [{ name: 'Www.Example', type: 'TXT', class: 'CH' }],
      additionals: [
        { type: 'OPT', udpPayloadSize: 4096, flag_do: true, options: [{ type: 'NSID' }] },
      ],
    })
  })

  test('has no EDNS where none is wanted', () => {
    const flags = { recursionDesired: true, checkingDisabled: false, dnssecOk: false, nsid: false }
    const query = encodeQuery({ name: wire('.'), type: 2, class: 1, ednsBytes: 0, ...flags })
    expect(packet.decode(query)).toMatchObject({
      flag_rd: true,
      questions: [{ name: '.', type: 'NS', class: 'IN' }],
      additionals: [],
    })
  })
})

describe('the data of each type', () => {
  // The texts are those that dig prints, texts without their quotes.
  const rows: [string, Buffer, string, object?][] = [
    ['A', hex('c0000201'), '192.0.2.1'],
    ['AAAA', hex('20010db8000000000000000000000001'), '2001:db8::1'],
    ['AAAA', hex('00000000000000000000000000000000'), '::'],
    ['AAAA', hex('00010000000000010000000000000001'), '1:0:0:1::1'],
    ['AAAA', hex('20010db8000100010001000000010001'), '2001:db8:1:1:1:0:1:1'],
    ['AAAA', hex('00000000000000000000ffffc0000201'), '::ffff:192.0.2.1'],
    ['NS', wire('ns.test'), 'ns.test.'],
    ['CNAME', hex('c00c'), 'a.test.'],
    ['DNAME', wire('.'), '.'],
    ['PTR', wire('b\\.c\\032d\\255.test'), 'b\\.c\\032d\\255.test.'],
    ['MX', hex('000a c00c'), '10 a.test.', { preference: 10, exchange: 'a.test.' }],
    ['TXT', string('v=spf1 "x"'), 'v=spf1 "x"'],
    ['TXT', join(string('a '), string('b')), 'a b'],
    ['TXT', string(''), ''],
    ['TXT', hex('04 c3a9 0041'), '\\195\\169\\000A'],
    ['TXT', hex('03 c3a9 41'), 'éA'],
    ['TXT', hex('02 41c3 02 a942'), 'AéB'],
    [
      'SOA',
      join(wire('n.test'), wire('m.test'), TIMES),
      'n.test. m.test. 1 2 3 4 4294967295',
      SERIAL,
    ],
    ['SRV', join(hex('0001 0002 13c4'), wire('s.test')), '1 2 5060 s.test.', SIP],
    [
      'NAPTR',
      join(hex('0001 0002'), string('s'), string('SIP+D2U'), string(''), wire('_sip.test')),
      '1 2 "s" "SIP+D2U" "" _sip.test.',
    ],
    ['CAA', join(hex('80'), string('issue'), ascii(';')), '128 issue ";"', { flags: 128 }],
    ['DS', hex('ebc0 0d 02 abcdef'), '60352 13 2 ABCDEF'],
    ['DNSKEY', hex('0101 03 0d 010203'), '257 3 13 AQID', { flags: 257 }],
    [
      'RRSIG',
      join(hex('0001 0d 02 0000003c 65000000 64000000 ebc0'), wire('test'), hex('ff')),
      'A 13 2 60 20230912060656 20230302014640 60352 test. /w==',
    ],
    ['NSEC', join(wire('b.test'), hex('0006 400000000003 0101 40')), 'b.test. A RRSIG NSEC CAA'],
    ['NSEC3', hex('01 00 0000 02 abcd 03 010203 0001 40'), '1 0 0 ABCD 04106 A'],
    ['NSEC3PARAM', hex('01 00 000a 00'), '1 0 10 -'],
    ['TLSA', hex('03 01 01 abcdef'), '3 1 1 ABCDEF'],
    [
      'SVCB',
      service(hex('0000 0004 00010003 0001 0003 026832 0003 0002 01bb')),
      '1 . mandatory=alpn,port alpn=h2 port=443',
      { priority: 1, target: '.', params: PORT },
    ],
    [
      'HTTPS',
      service(hex('0002 0000 0004 0004 c0000201 0006 0010'), Buffer.alloc(16)),
      '1 . no-default-alpn ipv4hint=192.0.2.1 ipv6hint=::',
    ],
    [
      'HTTPS',
      service(hex('0005 0003 010203 0007 0002 2f71 029a 0001 61 029b 0000')),
      '1 . ech=AQID dohpath="/q" key666="a" key667',
    ],
    ['HTTPS', join(hex('0000'), wire('c.test')), '0 c.test.', { priority: 0 }],
  ]
  test.each(rows)('%s %$', (type, data, text, fields) => {
    const number = DNS_TYPE_NUMBERS[type] as number
    const found = decoded(number, data)
    const own = fields === undefined ? {} : { fields }
    expect(found).toMatchObject({ name: 'a.test.', type, TTL: 60, data: text, ...own })
  })

  test('every type with a name has a row', () => {
    const named = new Set(rows.map(([type]) => type))
    expect(Object.keys(DNS_TYPE_NUMBERS).filter((type) => !named.has(type))).toEqual(['OPT'])
  })

  test.each<[string, number, Buffer, string]>([
    ['with data', 65_400, hex('00ff'), '\\# 2 00ff'],
    ['without data', 65_400, hex(''), '\\# 0'],
  ])('an unknown type, %s', (_, type, data, text) => {
    expect(decoded(type, data)).toMatchObject({ type: 'TYPE65400', data: text })
  })

  test('a text of several strings is shown as one alone, which can be scrubbed', () => {
    const found = decoded(16, join(string('pass'), string('word')))
    expect(found).toMatchObject({ data: 'password' })
    expect(JSON.stringify(found)).not.toContain('"word"')
  })

  test('a time to live with its highest bit set counts as 0', () => {
    expect(decoded(1, hex('c0000201'), 0x8000_0000)).toMatchObject({ TTL: 0 })
    expect(decoded(1, hex('c0000201'), 0x7fff_ffff)).toMatchObject({ TTL: 0x7fff_ffff })
  })

  test.each<[string, string, Buffer]>([
    ['an address too long', 'A', hex('c000020101')],
    ['a text beyond its end', 'TXT', hex('05 6161')],
    ['a text of nothing', 'TXT', hex('')],
    ['a start of authority cut off', 'SOA', join(wire('a'), wire('b'), hex('00000001'))],
    ['out of order', 'SVCB', service(hex('0003000201bb 00010000'))],
    ['one twice', 'SVCB', service(hex('0003000201bb 0003000201bb'))],
    ['a port of one byte', 'SVCB', service(hex('0003 0001 01'))],
    ['half an address', 'HTTPS', service(hex('0004 0002 c000'))],
    ['beyond its list', 'HTTPS', service(hex('0001 0002 0968'))],
    ['a bitmap beyond its end', 'NSEC', join(wire('b'), hex('0009 40'))],
    ['a name that leads to its own record', 'CNAME', hex('c024')],
  ])('refused: %s', (_, type, data) => {
    expect(typeof decoded(DNS_TYPE_NUMBERS[type] as number, data)).toBe('string')
  })
})
