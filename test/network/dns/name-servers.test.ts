// Aim: unresponsive name servers are an error of our own, for every kind of monitor and of failure; a missing answer
// for one name is a failure of that name if the servers answer others.
import { describe, expect, test } from 'vitest'
import { DeadlineReached } from '../../../src/network/deadline.ts'
import { NameServers } from '../../../src/network/dns/name-servers.ts'
import { createResolver } from '../../../src/network/dns/resolver.ts'
import { TargetFailure } from '../../../src/network/target-failure.ts'
import { checkDns, systemServers } from '../../support/monitors/dns/check-dns.ts'
import { startDnsServer, type DnsServer, type Zone } from '../../support/monitors/dns/dns-server.ts'
import { eventually } from '../../support/eventually.ts'
import { freePort } from '../../support/network/free-port.ts'
import { temporaryFile } from '../../support/temporary-folder.ts'

// One try of a second, so that the resolver itself gives up.
const resolvConf = temporaryFile('resolv.conf', 'options timeout:1 attempts:1\n')

const never = new AbortController().signal

async function codeOf(work: Promise<unknown>): Promise<string> {
  const error: unknown = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (error instanceof TargetFailure) return error.failure.code
  if (error instanceof DeadlineReached) return 'deadline'
  return String(error)
}

/** A deadline after this number of queries for the root. */
function deadlineAtRoot({ asked }: DnsServer, times: number): AbortSignal {
  const controller = new AbortController()
  const isTime = () => asked.filter((name) => name === '').length >= times
  void eventually(isTime).then(() => controller.abort(new DeadlineReached(1)))
  return controller.signal
}

const portOf = ({ authority }: DnsServer) => Number(authority.split(':')[1])

const resolverOf = (servers: readonly string[], conf = resolvConf) =>
  createResolver({ useOsResolver: false, resolvConf: conf, servers })

const SERVERS: [string, Zone, string][] = [
  ['answers nothing', { '*': 'silent' }, 'RESOLVER_UNREACHABLE'],
  ['does not answer for one name', { 'www.zone.example': 'silent' }, 'about the name'],
  ['refuses everything', { '*': 'REFUSED' }, 'RESOLVER_UNREACHABLE'],
  ['refuses one name', { 'www.zone.example': 'REFUSED' }, 'about the name'],
  ['fails with everything', { '*': 'SERVFAIL' }, 'about the name'],
]

describe.concurrent.each(SERVERS)('a server that %s', (_, zone, expected) => {
  const isOurs = expected === 'RESOLVER_UNREACHABLE'

  test('for a monitor that has to resolve a name', async () => {
    await using server = await startDnsServer(zone)
    const resolving = resolverOf([server.authority]).resolve('www.zone.example', 'IPv4', never)
    expect(await codeOf(resolving)).toBe(isOurs ? expected : 'DNS_SERVER_FAILED')
  })

  test('for a DNS monitor without a named server', async () => {
    await using server = await startDnsServer(zone)
    const system = systemServers([portOf(server)])
    const isUnresponsive = Object.values(zone).includes('silent')
    const signal = isUnresponsive ? deadlineAtRoot(server, isOurs ? 3 : 1) : never
    const { codes } = await checkDns({}, { maxResponseTime: 5000 }, { system, signal })
    const ofTheName = isUnresponsive ? 'TIMEOUT_FIRST_BYTE' : 'DNS_RESPONSE_CODE'
    expect(codes).toEqual([isOurs ? expected : ofTheName])
  })
})

test('a server that does not run is an error of our own', async () => {
  const port = await freePort()
  const resolver = resolverOf([`127.0.0.1:${port}`])
  expect(await codeOf(resolver.resolve('www.zone.example', 'IPv4', never))).toBe(
    'RESOLVER_UNREACHABLE',
  )
})

test.each([{ shouldFail: true }, { protocol: 'TCP' }])(
  'no DNS monitor without a named server passes or fails by it: %o',
  async ({ shouldFail = false, ...request }) => {
    const system = systemServers([await freePort(), await freePort()])
    const { codes } = await checkDns(request, { shouldFail }, { system })
    expect(codes).toEqual(['RESOLVER_UNREACHABLE'])
  },
)

test('the server of a DNS monitor is its target', async () => {
  await using server = await startDnsServer({ '*': 'REFUSED' })
  const named = (port: number) => checkDns({ nameServer: '127.0.0.1', port })
  expect((await named(portOf(server))).codes).toEqual(['DNS_RESPONSE_CODE'])
  expect((await named(await freePort())).codes).toEqual(['CONNECT_REFUSED'])
  await using unresponsive = await startDnsServer({ '*': 'silent' })
  expect((await named(portOf(unresponsive))).codes).toEqual(['TIMEOUT_FIRST_BYTE'])
})

test('a second server that answers is enough', async () => {
  await using second = await startDnsServer({ 'www.zone.example': 'silent' })
  const resolver = resolverOf([`127.0.0.1:${await freePort()}`, second.authority])
  expect(await codeOf(resolver.resolve('www.zone.example', 'IPv4', never))).toBe(
    'DNS_SERVER_FAILED',
  )
})

describe.concurrent('at the deadline, while the name is still looked up', () => {
  const patient = temporaryFile('patient.conf', 'options timeout:30 attempts:1\n')

  test('unresponsive servers are an error of our own, and known at once the next time', async () => {
    await using server = await startDnsServer({ '*': 'silent' })
    const resolver = resolverOf([server.authority], patient)
    const resolve = (times: number) =>
      codeOf(resolver.resolve('www.zone.example', 'IPv4', deadlineAtRoot(server, times)))
    expect(await resolve(3)).toBe('RESOLVER_UNREACHABLE')
    expect(await resolve(0)).toBe('RESOLVER_UNREACHABLE')
  })

  test('servers that recover meanwhile do not turn the lost question into a failure of the name', async () => {
    const zone: Zone = { '*': 'silent', 'www.zone.example': 'silent' }
    await using server = await startDnsServer(zone)
    const resolver = resolverOf([server.authority], patient)
    const deadline = new AbortController()
    const lost = codeOf(resolver.resolve('www.zone.example', 'IPv4', deadline.signal))
    const timesAsked = () => server.asked.filter((name) => name === '').length
    await eventually(() => timesAsked() >= 3)
    delete zone['*']
    expect(await codeOf(resolver.resolve('other.example', 'IPv4', never))).toBe('DNS_NOT_FOUND')
    deadline.abort(new DeadlineReached(1))
    expect(await lost).toBe('RESOLVER_UNREACHABLE')
    // For servers that have answered since, the system's own time-out may come first.
    const signal = deadlineAtRoot(server, timesAsked() + 1)
    const code = await codeOf(resolver.resolve('www.zone.example', 'IPv4', signal))
    expect(['deadline', 'DNS_SERVER_FAILED']).toContain(code)
  })

  test('a missing answer for one name is a failure of that name', async () => {
    await using server = await startDnsServer({ 'www.zone.example': 'silent' })
    const resolver = resolverOf([server.authority], patient)
    const signal = deadlineAtRoot(server, 1)
    const resolving = resolver.resolve('www.zone.example', 'IPv4', signal)
    expect(await codeOf(resolving)).toBe('deadline')
  })

  test('a cancelled question rejects with its own reason', async () => {
    await using server = await startDnsServer({ '*': 'silent' })
    const controller = new AbortController()
    const resolving = resolverOf([server.authority], patient).resolve(
      'www.zone.example',
      'IPv4',
      controller.signal,
    )
    const code = codeOf(resolving)
    controller.abort(new Error('enough'))
    expect(await code).toBe('Error: enough')
  })
})

test('concurrent questions share one query for the root', async () => {
  await using server = await startDnsServer({ '*': 'REFUSED' })
  const resolver = resolverOf([server.authority])
  const names = Array.from({ length: 50 }, (_, index) => `n${index}.zone.example`)
  const all = await Promise.all(names.map((name) => codeOf(resolver.resolve(name, 'IPv4', never))))
  expect(new Set(all)).toEqual(new Set(['RESOLVER_UNREACHABLE']))
  expect(server.asked.filter((name) => name === '').length).toBeLessThan(names.length)
})

test('an answer to another question meanwhile counts', async () => {
  await using server = await startDnsServer({ '*': 'REFUSED' })
  const servers = new NameServers(() => ({
    servers: [{ address: '127.0.0.1', port: portOf(server) }],
  }))
  const sinceMs = performance.now()
  expect(await servers.problem(sinceMs, never)).toMatchObject({ code: 'RESOLVER_UNREACHABLE' })
  servers.noteAnswer()
  expect(await servers.problem(sinceMs, never)).toBeUndefined()
})
