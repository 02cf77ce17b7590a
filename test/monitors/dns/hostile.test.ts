// Aim: no name server, however broken or hostile, makes a DNS check lie: datagrams that are no answer are
// ignored, answers that cannot be read are refused, and nothing goes round in circles.
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { at, checkDns } from '../../support/monitors/dns/check-dns.ts'
import {
  ANSWER_AT,
  framed,
  overTcp,
  overUdp,
  rightAnswer,
  startHostileNameServer,
  withTail,
  withWord,
} from '../../support/monitors/dns/hostile-name-server.ts'

const TC = 0x0200
const QR = 0x8000
describe('datagrams that are no answer are ignored and counted, and waiting goes on', () => {
  /** The right answer with another 16-bit number at this place. */
  const altered = (place: number, change: (word: number) => number) => (query: Buffer) =>
    withWord(rightAnswer(query), place, change)
  test.each<[string, (query: Buffer) => Buffer]>([
    ['another id', altered(0, (id) => id + 1)],
    ['a query', altered(2, (flags) => flags & ~QR)],
    ['the query itself', (query) => query],
    ['another operation', altered(2, (flags) => flags | 0x2800)],
    ['another name', altered(13, (letters) => letters ^ 1)],
    ['another type', altered(ANSWER_AT - 4, () => 28)],
    ['another class', altered(ANSWER_AT - 2, () => 3)],
    ['two questions', altered(4, () => 2)],
    ['no question', altered(4, () => 0)],
    ['nothing', () => Buffer.alloc(0)],
    ['half a header', (query) => rightAnswer(query).subarray(0, 7)],
    ['half a question', (query) => rightAnswer(query).subarray(0, 20)],
    ['noise', () => Buffer.alloc(600, 0xff)],
  ])('%s', async (_, wrong) => {
    await using server = await startHostileNameServer(
      overUdp((query) => [wrong(query), wrong(query), rightAnswer(query)]),
    )
    const { codes, observed } = await checkDns(at(server.port))
    expect(codes).toEqual([])
    expect(observed.udp).toMatchObject({ sent: 1, ignored: 2, ignoredReason: expect.any(String) })
    await using alone = await startHostileNameServer(overUdp(wrong))
    const silent = await checkDns({ attempts: 1, ...at(alone.port) }, { maxResponseTime: 250 })
    expect(silent.codes).toEqual(['TIMEOUT_FIRST_BYTE'])
    expect(silent.failures[0]?.details).toMatchObject({ sent: 1, ignored: 1 })
  })

  test('a right answer from another port never arrives', async () => {
    const other = createSocket('udp4')
    await using server = await startHostileNameServer({
      udp: (query, _, peer) => other.send(rightAnswer(query), peer.port, peer.address),
    })
    const request = { attempts: 1, ...at(server.port) }
    const { codes, observed } = await checkDns(request, { maxResponseTime: 250 })
    other.close()
    expect(codes).toEqual(['TIMEOUT_FIRST_BYTE'])
    expect(observed.udp).toEqual({ sent: 1, ignored: 0, passedOver: [] })
  })

  test('capital letters in the question are the same name', async () => {
    await using server = await startHostileNameServer(
      overUdp((query) => {
        const answer = rightAnswer(query)
        answer.write('WWW', 13)
        return answer
      }),
    )
    expect((await checkDns(at(server.port))).codes).toEqual([])
  })

  test('an error without its question is an answer', async () => {
    await using server = await startHostileNameServer(
      overUdp((query) =>
        Buffer.concat([query.subarray(0, 2), Buffer.from('80050000000000000000', 'hex')]),
      ),
    )
    const { codes, observed } = await checkDns(at(server.port))
    expect(codes).toEqual(['DNS_RESPONSE_CODE'])
    expect(observed.responseCode).toBe('REFUSED')
  })
})

describe('answers that cannot be read are refused at once', () => {
  /** The right answer with these bytes in place of its records, or of its end. */
  const tail =
    (bytes: number[], place = ANSWER_AT) =>
    (query: Buffer) =>
      withTail(rightAnswer(query), place, ...bytes)
  const count = (place: number, number: number) => (query: Buffer) =>
    withWord(rightAnswer(query), place, () => number)
  const long = Array.from({ length: 130 }, () => [1, 97]).flat()
  test.each<[string, (query: Buffer) => Buffer]>([
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
    ['the header alone, with counts', (query) => rightAnswer(query).subarray(0, ANSWER_AT)],
  ])('%s', async (_, wrong) => {
    await using server = await startHostileNameServer({ ...overUdp(wrong), ...overTcp(wrong) })
    for (const protocol of ['UDP', 'TCP']) {
      const { codes, observed } = await checkDns({ protocol, ...at(server.port) })
      expect(codes).toEqual(['DNS_MALFORMED'])
      expect(observed.phases.totalMs).toBeLessThan(500)
    }
  })
})

describe('truncation', () => {
  const cut = (query: Buffer) => withWord(rightAnswer(query), 2, (flags) => flags | TC)

  test('an answer that is cut off over TCP as well ends there', async () => {
    await using server = await startHostileNameServer({ ...overUdp(cut), ...overTcp(cut) })
    const { codes, observed } = await checkDns(at(server.port))
    expect(codes).toEqual(['DNS_TRUNCATED'])
    expect(observed.udp?.sent).toBe(1)
    expect(server.queries).toHaveLength(2)
  })

  test('a server without TCP', async () => {
    const socket = createSocket('udp4', (query, peer) => socket.send(cut(query), peer.port))
    socket.bind(0, '127.0.0.1')
    await once(socket, 'listening')
    const { codes, observed } = await checkDns(at(socket.address().port))
    socket.close()
    expect(codes).toEqual(['CONNECT_REFUSED'])
    expect(observed).toMatchObject({ truncated: true, protocol: 'TCP' })
  })

  test('the whole answer comes over TCP, in small pieces', async () => {
    await using server = await startHostileNameServer({
      ...overUdp(cut),
      tcp: (query, socket) => {
        const bytes = [...framed(rightAnswer(query))]
        const next = () => {
          const byte = bytes.shift()
          if (byte !== undefined)
            socket.setNoDelay().write(Buffer.from([byte]), () => setImmediate(next))
        }
        next()
      },
    })
    const { codes, observed } = await checkDns(at(server.port))
    expect(codes).toEqual([])
    expect(observed.response?.Answer).toHaveLength(1)
  })
})

describe('EDNS', () => {
  const formerr = (query: Buffer) =>
    rightAnswer(query, query.readUInt16BE(10) === 0 ? {} : { rcode: 1, answers: [] })

  test('a server that does not know it is asked again without it', async () => {
    await using server = await startHostileNameServer(overUdp(formerr))
    const { codes, observed } = await checkDns(at(server.port))
    expect(codes).toEqual([])
    expect(observed).toMatchObject({ withoutEdns: true, udp: { sent: 2 } })
  })

  test('unless a part of it was asked for', async () => {
    await using server = await startHostileNameServer(overUdp(formerr))
    const { codes } = await checkDns({ dnssecOk: true, ...at(server.port) })
    expect(codes).toEqual(['DNS_RESPONSE_CODE'])
  })

  test('its part of the response code counts', async () => {
    const opt = [0, 0, 41, 4, 208, 1, 0, 0, 0, 0, 0]
    await using server = await startHostileNameServer(
      overUdp((query) => withWord(withTail(rightAnswer(query), Infinity, ...opt), 10, () => 1)),
    )
    const { observed } = await checkDns(at(server.port))
    expect(observed.responseCode).toBe('BADVERS')
    expect(observed.counts?.additionals).toBe(0)
  })

  test.each<[string, number[], number]>([
    ['twice', [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0, 0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0], 2],
    ['of a name', [1, 97, 0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0], 1],
    ['with an option beyond its end', [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 4, 0, 15, 0, 9], 1],
  ])('%s', async (_, bytes, count) => {
    await using server = await startHostileNameServer(
      overUdp((query) =>
        withWord(withTail(rightAnswer(query), Infinity, ...bytes), 10, () => count),
      ),
    )
    expect((await checkDns(at(server.port))).codes).toEqual(['DNS_MALFORMED'])
  })
})
