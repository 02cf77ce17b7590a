// Aim: no name server, however broken, hostile, silent or forbidden, makes a DNS check lie or hang: it asks again
// within its deadline, asks another server where there is one, and says what happened.
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import type { Answer } from 'dns-packet'
import { describe, expect, test } from 'vitest'
import { askOverUdp } from '../../../src/network/dns/udp.ts'
import { at, checkDns, systemServers } from '../../support/monitors/dns/check-dns.ts'
import { startConnectProxy } from '../../support/network/connect-proxy.ts'
import {
  ANSWER_AT,
  framed,
  overTcp,
  overUdp,
  rightAnswer,
  startHostileNameServer,
  withTail,
  withWord,
  type Misdeeds,
} from '../../support/monitors/dns/hostile-name-server.ts'
import { fixedResolver } from '../../support/monitors/monitor-context.ts'
import { freePort } from '../../support/network/free-port.ts'

const TC = 0x0200

describe('wrong answers', () => {
  test('datagrams that are none are ignored and counted, and waiting goes on', async () => {
    const wrong = (query: Buffer) => withWord(rightAnswer(query), 0, (id) => id + 1)
    await using server = await startHostileNameServer(
      overUdp((query) => [wrong(query), wrong(query), rightAnswer(query)]),
    )
    const { codes, observed } = await checkDns(at(server.port))
    expect(codes).toEqual([])
    expect(observed.udp).toMatchObject({ sent: 1, ignored: 2, ignoredReason: expect.any(String) })
    await using alone = await startHostileNameServer(overUdp(wrong))
    const silent = await checkDns({ attempts: 1, ...at(alone.port) }, { maxResponseTime: 150 })
    expect(silent.codes).toEqual(['TIMEOUT_FIRST_BYTE'])
    expect(silent.failures[0]?.details).toMatchObject({ sent: 1, ignored: 1 })
  })

  test.each(['UDP', 'TCP'])(
    'one that cannot be read is refused at once over %s',
    async (protocol) => {
      const wrong = (query: Buffer) => withTail(rightAnswer(query), ANSWER_AT, 0xc0, ANSWER_AT)
      await using server = await startHostileNameServer({ ...overUdp(wrong), ...overTcp(wrong) })
      const { codes, observed } = await checkDns({ protocol, ...at(server.port) })
      expect(codes).toEqual(['DNS_MALFORMED'])
      expect(observed.phases.totalMs).toBeLessThan(500)
    },
  )

  test('a right answer from another port never arrives', async () => {
    const other = createSocket('udp4')
    await using server = await startHostileNameServer({
      udp: (query, _, peer) => other.send(rightAnswer(query), peer.port, peer.address),
    })
    const request = { attempts: 1, ...at(server.port) }
    const { codes, observed } = await checkDns(request, { maxResponseTime: 150 })
    other.close()
    expect(codes).toEqual(['TIMEOUT_FIRST_BYTE'])
    expect(observed.udp).toEqual({ sent: 1, ignored: 0, passedOver: [] })
  })

  test('the server’s reasons for an error are shown', async () => {
    const error = { code: 15, data: Buffer.from('\0\x06no way') }
    const opt = { type: 'OPT', name: '.', udpPayloadSize: 1232, flags: 0, options: [error] }
    const answer = { rcode: 2, answers: [], additionals: [opt as unknown as Answer] }
    await using server = await startHostileNameServer(
      overUdp((query) => rightAnswer(query, answer)),
    )
    const { codes, failures } = await checkDns(at(server.port))
    expect(codes).toEqual(['DNS_RESPONSE_CODE'])
    expect(failures[0]).toMatchObject({
      message: expect.stringContaining('6 DNSSEC Bogus: no way') as string,
      details: { responseCode: 'SERVFAIL', extendedErrors: [{ code: 6, name: 'DNSSEC Bogus' }] },
    })
  })
})

test('the answer is shown in the order that assertions see, not in that of the server', async () => {
  const mx = (preference: number) => {
    const data = { preference, exchange: `mail${preference}.zone.example` }
    return { type: 'MX', name: 'www.zone.example', ttl: 60, data } as Answer
  }
  await using server = await startHostileNameServer(
    overUdp((query) => rightAnswer(query, { answers: [mx(20), mx(9)] })),
  )
  const { observed } = await checkDns({ ...at(server.port), recordType: 'MX' })
  const shown = observed.response?.Answer.map(({ data }) => data)
  expect(shown).toEqual(['9 mail9.zone.example.', '20 mail20.zone.example.'])
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
})

describe('no answer', () => {
  test('a query that is lost is sent again, on the same socket, with the same id', async () => {
    let lost = 0
    await using server = await startHostileNameServer({
      udp: (query, send) => void (lost++ > 0 && send(rightAnswer(query))),
    })
    const limits = { maxResponseTime: 900, degradedResponseTime: 100 }
    const { codes, observed, degraded } = await checkDns(at(server.port), limits)
    expect(codes).toEqual([])
    expect(degraded).toBe(true)
    expect(observed.udp).toMatchObject({ sent: 2 })
    expect(server.queries[0]).toEqual(server.queries[1])
  })

  test('a late answer to the first query counts', async () => {
    await using server = await startHostileNameServer({
      udp(query, send) {
        if (server.queries.length === 2) send(rightAnswer(server.queries[0] ?? query))
      },
    })
    expect((await checkDns(at(server.port), { maxResponseTime: 900 })).codes).toEqual([])
  })

  // Asked directly: in the share of a monitor's time, a pause of this machine would cost an attempt.
  test.each([1, 2, 5])('%i attempts are made, and no more', async (attempts) => {
    await using server = await startHostileNameServer({})
    const options = {
      servers: [{ address: '127.0.0.1', port: server.port }],
      query: Buffer.from('000101000001000000000000', 'hex'),
      attempts,
      tryMs: 10,
      passesOver: () => false,
    }
    const tally = { sent: 0, ignored: 0, passedOver: [] }
    const asked = askOverUdp(options, tally, AbortSignal.timeout(1000))
    await expect(asked).rejects.toMatchObject({ name: 'TimeoutError' })
    expect(tally.sent).toBe(attempts)
    expect(server.queries).toHaveLength(attempts)
  })

  test('ids and ports differ from run to run', async () => {
    const ports = new Set<number>()
    await using server = await startHostileNameServer({
      udp: (query, send, peer) => {
        ports.add(peer.port)
        send(rightAnswer(query))
      },
    })
    for (let run = 0; run < 20; run++) await checkDns(at(server.port))
    // By chance two may be alike, hardly more.
    expect(ports.size).toBeGreaterThan(15)
    expect(new Set(server.queries.map((query) => query.readUInt16BE(0))).size).toBeGreaterThan(15)
  })

  test('of several servers each is asked in turn, and a late answer of the first one still counts', async () => {
    await using second = await startHostileNameServer({})
    await using first = await startHostileNameServer({
      udp: (query, send) => void (second.queries.length > 0 && send(rightAnswer(query))),
    })
    const system = systemServers([first.port, second.port])
    const { codes, observed } = await checkDns({}, { maxResponseTime: 900 }, { system })
    expect(codes).toEqual([])
    expect(observed).toMatchObject({ port: first.port, udp: { sent: 3 } })
  })

  test('the system’s second server answers over TCP where the first is silent', async () => {
    await using first = await startHostileNameServer({})
    await using second = await startHostileNameServer(overTcp((query) => rightAnswer(query)))
    const system = systemServers([first.port, second.port])
    const settings = { maxResponseTime: 800 }
    const { codes, observed } = await checkDns({ protocol: 'TCP' }, settings, { system })
    expect(codes).toEqual([])
    expect(observed.port).toBe(second.port)
    expect(first.open()).toBe(0)
  })

  test('an answer that says little is used when no better one comes', async () => {
    const failing = (query: Buffer) => rightAnswer(query, { rcode: 2, answers: [] })
    await using first = await startHostileNameServer(overUdp(failing))
    await using second = await startHostileNameServer({})
    const system = systemServers([first.port, second.port])
    const { codes, observed } = await checkDns({}, { maxResponseTime: 400 }, { system })
    expect(codes).toEqual(['DNS_RESPONSE_CODE'])
    expect(observed).toMatchObject({ responseCode: 'SERVFAIL', port: first.port })
  })
})

describe('the system’s servers', () => {
  const refusing = (query: Buffer) => rightAnswer(query, { rcode: 5, answers: [] })
  const right = (query: Buffer) => rightAnswer(query)

  test.each([
    ['UDP', [{ address: '127.0.0.1', reason: 'REFUSED' }]],
    ['TCP', undefined],
  ])('over %s: the first that knows an answer gives it', async (protocol, passedOver) => {
    await using first = await startHostileNameServer({ ...overUdp(refusing), ...overTcp(refusing) })
    await using second = await startHostileNameServer({ ...overUdp(right), ...overTcp(right) })
    const system = systemServers([first.port, second.port])
    const { codes, observed } = await checkDns({ protocol }, {}, { system })
    expect(codes).toEqual([])
    expect(observed).toMatchObject({ port: second.port, protocol })
    expect(observed.udp?.passedOver).toEqual(passedOver)
  })

  test('one that is not allowed is left out, and none that is, an error of ours', async () => {
    await using server = await startHostileNameServer(overUdp(right))
    const { servers, ...limits } = systemServers([server.port])
    const system = { ...limits, servers: [{ address: '127.0.0.2', port: 1 }, ...servers] }
    const { codes, observed } = await checkDns({}, {}, { system, blocked: ['127.0.0.2'] })
    expect(codes).toEqual([])
    expect(observed).toMatchObject({ address: '127.0.0.1', udp: { passedOver: [] } })
    expect((await checkDns({}, {}, { system, blocked: ['127.0.0.0/8'] })).codes).toEqual([
      'ADDRESS_BLOCKED',
    ])
  })
})

describe('connections', () => {
  const half = (query: Buffer) => framed(rightAnswer(query)).subarray(0, 30)
  const altered = (place: number, change: (word: number) => number) =>
    overTcp((query) => withWord(rightAnswer(query), place, change))
  test.each<[string, Misdeeds, string]>([
    ['the end at once', { tcp: (_, socket) => void socket.end() }, 'CONNECTION_CLOSED'],
    ['half a length', { tcp: (_, s) => void s.end(Buffer.from([0])) }, 'CONNECTION_CLOSED'],
    ['half an answer', { tcp: (query, s) => void s.end(half(query)) }, 'CONNECTION_CLOSED'],
    ['a reset', { tcp: (_, socket) => socket.resetAndDestroy() }, 'CONNECTION_RESET'],
    ['an empty message', { tcp: (_, s) => void s.write(Buffer.alloc(2)) }, 'DNS_MISMATCH'],
    ['another id', altered(0, (id) => id + 1), 'DNS_MISMATCH'],
    ['another name', altered(13, (letters) => letters ^ 1), 'DNS_MISMATCH'],
    ['no answer', {}, 'TIMEOUT_FIRST_BYTE'],
    ['a beginning', { tcp: (_, s) => void s.write(Buffer.from([1, 0, 0])) }, 'TIMEOUT_DOWNLOAD'],
  ])('%s', async (_, misdeeds, code) => {
    await using server = await startHostileNameServer(misdeeds)
    const request = { protocol: 'TCP', ...at(server.port) }
    expect((await checkDns(request, { maxResponseTime: 150 })).codes).toEqual([code])
  })

  test('nobody there', async () => {
    const port = await freePort()
    for (const protocol of ['UDP', 'TCP']) {
      expect((await checkDns({ protocol, ...at(port) })).codes).toEqual(['CONNECT_REFUSED'])
    }
    const system = systemServers([port, port])
    expect((await checkDns({}, {}, { system })).codes).toEqual(['RESOLVER_UNREACHABLE'])
  })

  test('a port that does not speak TLS', async () => {
    await using server = await startHostileNameServer({
      tcp: (_, socket) => void socket.write('220 hello\r\n'),
    })
    for (const protocol of ['DOT', 'DOH']) {
      const { codes } = await checkDns({ protocol, ...at(server.port) })
      expect(codes).toEqual(['TLS_NOT_SPOKEN'])
    }
  })
})

describe('IPv6', () => {
  test('reaches a server by its address and by its name', async () => {
    const server = createSocket('udp6', (query, peer) => {
      server.send(rightAnswer(query), peer.port, peer.address)
    })
    server.bind(0, '::1')
    await once(server, 'listening')
    const { port } = server.address()
    const resolver = fixedResolver({ 'ns.test': ['::1'], '::1': ['::1'], '[::1]': ['::1'] })
    for (const nameServer of ['::1', '[::1]', 'ns.test']) {
      const request = { nameServer, port, ipFamily: 'IPv6' }
      const { codes, observed } = await checkDns(request, {}, { resolver })
      expect(codes).toEqual([])
      expect(observed).toMatchObject({ address: '::1', family: 'IPv6' })
    }
    server.close()
  })
})

describe('the location’s proxy', () => {
  test('knows a name server that this agent does not', async () => {
    await using server = await startHostileNameServer(overTcp((query) => rightAnswer(query)))
    await using proxy = await startConnectProxy({ names: { 'ns.inside': '127.0.0.1' } })
    const options = { proxyUrl: `http://${proxy.authority}` }
    const request = { protocol: 'TCP', nameServer: 'ns.inside', port: server.port }
    const { codes, observed } = await checkDns(request, {}, options)
    expect(codes).toEqual([])
    expect(proxy.requestLines).toEqual([`CONNECT ns.inside:${server.port}`])
    expect(observed.phases.proxyMs).toBeGreaterThan(0)
  })

  test('takes no datagrams: those go directly', async () => {
    await using server = await startHostileNameServer(overUdp((query) => rightAnswer(query)))
    await using proxy = await startConnectProxy()
    const options = { proxyUrl: `http://${proxy.authority}` }
    expect((await checkDns(at(server.port), {}, options)).codes).toEqual([])
    expect(proxy.requestLines).toEqual([])
  })
})

describe('the network policy', () => {
  test.each(['UDP', 'TCP', 'DOT', 'DOH'])('forbids a name server over %s', async (protocol) => {
    await using server = await startHostileNameServer({})
    const resolver = fixedResolver({ 'ns.test': ['127.0.0.1'], '127.0.0.1': ['127.0.0.1'] })
    const options = { resolver, blocked: ['127.0.0.0/8'] }
    for (const nameServer of ['127.0.0.1', 'ns.test']) {
      const { codes } = await checkDns({ protocol, nameServer, port: server.port }, {}, options)
      expect(codes).toEqual(['ADDRESS_BLOCKED'])
    }
    expect(server.queries).toEqual([])
  })

  test('a name of a server that is never found', async () => {
    const options = { resolver: fixedResolver({}) }
    const request = { nameServer: 'nowhere.test' }
    const { codes } = await checkDns(request, { maxResponseTime: 50 }, options)
    expect(codes).toEqual(['TIMEOUT_DNS'])
  })
})
