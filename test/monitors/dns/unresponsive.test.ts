// Aim: a DNS check whose servers are silent, gone, forbidden or break off asks again within its deadline, asks
// another where there is one, and says what happened.
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { at, checkDns, systemServers } from '../../support/monitors/dns/check-dns.ts'
import { startConnectProxy } from '../../support/network/connect-proxy.ts'
import {
  framed,
  overTcp,
  overUdp,
  rightAnswer,
  startHostileNameServer,
  withWord,
  type Misdeeds,
} from '../../support/monitors/dns/hostile-name-server.ts'
import { fixedResolver } from '../../support/monitors/monitor-context.ts'
import { freePort } from '../../support/network/free-port.ts'

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

  test.each([1, 2, 5])('%i attempts are made, and no more', async (attempts) => {
    await using server = await startHostileNameServer({})
    const { codes } = await checkDns({ attempts, ...at(server.port) }, { maxResponseTime: 800 })
    expect(codes).toEqual(['TIMEOUT_FIRST_BYTE'])
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
    const settings = { maxResponseTime: 1500 }
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
