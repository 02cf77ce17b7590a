// Aim: the decoder of DNS messages agrees with another one where both can decode, and neither throws nor is slow on
// any bytes.
import packet, { type Answer, type Packet } from 'dns-packet'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { DNS_TYPE_NUMBERS } from '../../../src/contract/dns/parameters.ts'
import { readAnswer } from '../../../src/network/dns/message.ts'
import { decoded, NAME, queryFor, response } from '../../support/monitors/dns/dns-messages.ts'
import {
  ANSWER_AT,
  rightAnswer,
  withTail,
  withWord,
} from '../../support/monitors/dns/hostile-name-server.ts'
import { startStopwatch } from '../../support/stopwatch.ts'

const label = fc.stringMatching(/^[a-z0-9-]{1,20}$/)
const name = fc.array(label, { minLength: 1, maxLength: 5 }).map((labels) => labels.join('.'))
const u16 = fc.nat(65_535)
const u32 = fc.nat(0x7fff_ffff)
const text = fc.stringMatching(/^[ !#-[\]-~]{0,200}$/)

/** A record as the other codec accepts it, with the expected text. */
const record = <T>(type: string, anyData: fc.Arbitrary<T>, textOf: (data: T) => string) =>
  fc
    .tuple(name, u32, anyData)
    .map(([owner, ttl, data]): [Answer, string] => [
      { type, name: owner, ttl, data } as Answer,
      textOf(data),
    ])

const times = { retry: fc.constant(3), expire: fc.constant(4), minimum: fc.constant(5) }
const answers = fc.oneof(
  record('A', fc.ipV4(), String),
  ...['NS', 'CNAME', 'PTR', 'DNAME'].map((type) => record(type, name, (one) => `${one}.`)),
  record(
    'MX',
    fc.record({ preference: u16, exchange: name }),
    (one) => `${one.preference} ${one.exchange}.`,
  ),
  record('TXT', fc.array(text, { minLength: 1, maxLength: 4 }), (one) => one.join('')),
  record(
    'SRV',
    fc.record({ priority: u16, weight: u16, port: u16, target: name }),
    (one) => `${one.priority} ${one.weight} ${one.port} ${one.target}.`,
  ),
  record(
    'SOA',
    fc.record({ mname: name, rname: name, serial: u32, refresh: u32, ...times }),
    (one) => `${one.mname}. ${one.rname}. ${one.serial} ${one.refresh} 3 4 5`,
  ),
)

const messages = fc.record({
  answers: fc.array(answers, { maxLength: 6 }),
  authorities: fc.array(answers, { maxLength: 3 }),
  additionals: fc.array(answers, { maxLength: 3 }),
  flags: u16,
  edns: fc.boolean(),
})

type GivenMessage = typeof messages extends fc.Arbitrary<infer T> ? T : never

function encoded(given: GivenMessage): Buffer {
  const records = (section: [Answer, string][]) => section.map(([one]) => one)
  const edns = { type: 'OPT', name: '.', udpPayloadSize: 1232, flags: 0, options: [] }
  const message: Packet = {
    type: 'response',
    id: 0x1234,
    // Neither cut off nor another operation.
    flags: given.flags & ~0x7a00,
    questions: [{ type: 'A', name: NAME, class: 'IN' }],
    answers: records(given.answers),
    authorities: records(given.authorities),
    additionals: [
      ...records(given.additionals),
      ...(given.edns ? [edns as unknown as Answer] : []),
    ],
  }
  return packet.encode(message)
}

describe('any message', () => {
  test('decodes as with another decoder', () => {
    fc.assert(
      fc.property(messages, (given) => {
        const bytes = encoded(given)
        const theirs = packet.decode(bytes)
        const reading = readAnswer(bytes, queryFor(1))
        if (reading.kind !== 'answer') throw new Error(JSON.stringify(reading))
        const { message } = reading
        const sections = [message.Answer, message.Authority, message.Additional]
        const expected = [given.answers, given.authorities, given.additionals]
        for (const [at, section] of sections.entries()) {
          expect(section.map(({ data }) => data)).toEqual(expected[at]?.map(([, data]) => data))
        }
        const common = (theirs.answers ?? []).map((one) => `${one.name}. ${one.type}`)
        expect(message.Answer.map((one) => `${one.name} ${one.type}`)).toEqual(common)
        expect(message.Edns !== undefined).toBe(given.edns)
        const flags = [message.AA, message.RD, message.RA, message.AD, message.CD]
        const { flag_aa, flag_rd, flag_ra, flag_ad, flag_cd } = theirs
        expect(flags).toEqual([flag_aa, flag_rd, flag_ra, flag_ad, flag_cd])
      }),
      { numRuns: 500 },
    )
  })

  test('with some bits flipped or cut off is read or refused, never throws', () => {
    const damage = fc.array(fc.tuple(fc.nat(), fc.nat(7)), { minLength: 1, maxLength: 8 })
    fc.assert(
      fc.property(messages, damage, fc.nat(), (given, flips, cut) => {
        const bytes = encoded(given)
        for (const [at, bit] of flips) {
          const place = 12 + (at % (bytes.length - 12))
          bytes[place] = (bytes[place] as number) ^ (1 << bit)
        }
        const { kind } = readAnswer(bytes, queryFor(1))
        expect(['answer', 'malformed', 'other', 'truncated']).toContain(kind)
        readAnswer(bytes.subarray(0, cut % bytes.length), queryFor(1))
      }),
      { numRuns: 2000 },
    )
  })

  test('of every type with any data is read or refused, never throws', () => {
    const types = fc.constantFrom(...Object.values(DNS_TYPE_NUMBERS))
    fc.assert(
      fc.property(types, fc.uint8Array({ maxLength: 120 }), (type, data) => {
        expect(['object', 'string']).toContain(typeof decoded(type, Buffer.from(data)))
      }),
      { numRuns: 5000 },
    )
  })

  test('of any bytes behind a right question is read or refused, never throws', () => {
    const counts = fc.tuple(fc.nat(9), fc.nat(9), fc.nat(9))
    fc.assert(
      fc.property(counts, fc.uint8Array({ maxLength: 300 }), (wanted, bytes) => {
        const { kind } = readAnswer(response(1, Buffer.from(bytes), wanted), queryFor(1))
        expect(['answer', 'malformed']).toContain(kind)
        expect(readAnswer(Buffer.from(bytes), queryFor(1)).kind).toBe('other')
      }),
      { numRuns: 5000 },
    )
  })

  test('of the largest size is decoded quickly', () => {
    // One name of 255 bytes, and as many records as fit, each with two references to it.
    const long = Buffer.concat([
      ...Array<Buffer>(123).fill(Buffer.from([1, 0xff])),
      Buffer.from([0]),
    ])
    const first = Buffer.concat([long, Buffer.from('0010000100000000000100', 'hex')])
    const at = queryFor(5).length - 11
    const pointer = Buffer.from([0xc0 | (at >> 8), at & 255])
    const other = Buffer.concat([pointer, Buffer.from('00050001000000000002', 'hex'), pointer])
    const count = Math.floor((65_535 - at - first.length) / other.length)
    const records = Buffer.concat([first, ...Array<Buffer>(count).fill(other)])
    const ownMs = startStopwatch()
    const reading = readAnswer(response(5, records, [count + 1, 0, 0]), queryFor(5))
    expect(ownMs()).toBeLessThan(50)
    expect(reading).toMatchObject({ kind: 'malformed' })
  })
})

const query = queryFor(1, 'www.zone.example')

describe('no answer to the query', () => {
  /** The right answer with another 16-bit number at this place. */
  const altered = (place: number, change: (word: number) => number) => () =>
    withWord(rightAnswer(query), place, change)
  test.each<[string, () => Buffer]>([
    ['another id', altered(0, (id) => id + 1)],
    ['a query', altered(2, (flags) => flags & ~0x8000)],
    ['the query itself', () => query],
    ['another operation', altered(2, (flags) => flags | 0x2800)],
    ['another name', altered(13, (letters) => letters ^ 1)],
    ['another type', altered(ANSWER_AT - 4, () => 28)],
    ['another class', altered(ANSWER_AT - 2, () => 3)],
    ['two questions', altered(4, () => 2)],
    ['no question', altered(4, () => 0)],
    ['nothing', () => Buffer.alloc(0)],
    ['half a header', () => rightAnswer(query).subarray(0, 7)],
    ['half a question', () => rightAnswer(query).subarray(0, 20)],
    ['noise', () => Buffer.alloc(600, 0xff)],
  ])('%s', (_, wrong) => {
    const reason = expect.any(String) as string
    expect(readAnswer(wrong(), query)).toEqual({ kind: 'other', reason })
  })
})

describe('an answer that cannot be read', () => {
  /** The right answer with these bytes in place of its records, or of its end. */
  const tail =
    (bytes: number[], place = ANSWER_AT) =>
    () =>
      withTail(rightAnswer(query), place, ...bytes)
  const count = (place: number, number: number) => () =>
    withWord(rightAnswer(query), place, () => number)
  const long = Array.from({ length: 130 }, () => [1, 97]).flat()
  test.each<[string, () => Buffer]>([
    ['a name that points to itself', tail([0xc0, ANSWER_AT])],
    ['names that point to each other', tail([1, 97, 0xc0, ANSWER_AT + 2, 0xc0, ANSWER_AT])],
    ['a name that points forwards', tail([0xc0, 200])],
    ['a name that points into the header', tail([0xc0, 2])],
    ['half a pointer', tail([0xc0])],
    ['a label of a type that does not exist', tail([0x80, 0])],
    ['a label beyond the end', tail([63, 97])],
    ['a name of more than 255 bytes', tail([...long, 0])],
    ['more records than there are', count(6, 2)],
    ['65,535 records that are not there', count(10, 0xffff)],
    ['data beyond the end', count(ANSWER_AT + 26, 400)],
    ['an address of three bytes', tail([0, 3, 1, 2, 3], -6)],
    ['an address of five bytes', tail([0, 5, 1, 2, 3, 4, 5], -6)],
    ['the header alone, with counts', () => rightAnswer(query).subarray(0, ANSWER_AT)],
  ])('%s', (_, wrong) => {
    expect(readAnswer(wrong(), query).kind).toBe('malformed')
  })
})

test('an error without its question is an answer, and so is one with capital letters', () => {
  const refusal = Buffer.from('123480050000000000000000', 'hex')
  expect(readAnswer(refusal, query)).toMatchObject({ message: { Status: 'REFUSED' } })
  const capital = rightAnswer(query)
  capital.write('WWW', 13)
  expect(readAnswer(capital, query).kind).toBe('answer')
})

describe('EDNS', () => {
  /** The right answer with these bytes behind it, as so many additional records. */
  const withOpt = (count: number, ...bytes: number[]) =>
    readAnswer(
      withWord(withTail(rightAnswer(query), Infinity, ...bytes), 10, () => count),
      query,
    )
  const opt = (...data: number[]) => [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, data.length, ...data]

  test('has a part of the response code', () => {
    expect(withOpt(1, 0, 0, 41, 4, 208, 1, 0, 0, 0, 0, 0)).toMatchObject({
      message: { Status: 'BADVERS', Additional: [] },
    })
  })

  test('has the errors of the server', () => {
    const extendedErrors = [{ code: 6, name: 'DNSSEC Bogus', text: 'no' }]
    const data = [0, 15, 0, 5, 0, 6, ...Buffer.from('no\0')]
    expect(withOpt(1, ...opt(...data))).toMatchObject({ message: { Edns: { extendedErrors } } })
  })

  test.each<[string, number, number[]]>([
    ['twice', 2, [...opt(), ...opt()]],
    ['of a name', 1, [1, 97, ...opt()]],
    ['with an option beyond its end', 1, opt(0, 15, 0, 9)],
  ])('%s is refused', (_, count, bytes) => {
    expect(withOpt(count, ...bytes).kind).toBe('malformed')
  })
})
