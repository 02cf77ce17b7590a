// Aim: unresponsive name servers are an error of our own, for every kind of monitor and of failure; a missing answer
// for one name is a failure of that name if the servers answer others.
import { describe, expect, test } from 'vitest'
import { DeadlineReached } from '../../../src/network/deadline.ts'
import { NameServers } from '../../../src/network/dns/name-servers.ts'
import { createResolver } from '../../../src/network/dns/resolver.ts'
import { TargetFailure } from '../../../src/network/target-failure.ts'
import { checkDns, systemServers } from '../../support/monitors/dns/check-dns.ts'
import {
  QUICK,
  startDnsServer,
  type DnsServer,
  type Zone,
} from '../../support/monitors/dns/dns-server.ts'
import { eventually } from '../../support/eventually.ts'
import { freePort } from '../../support/network/free-port.ts'
import { temporaryFile } from '../../support/temporary-folder.ts'

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

const timesAsked = ({ asked }: DnsServer) => asked.filter((name) => name === '').length

/** A deadline after this number of queries for the root. */
function deadlineAtRoot(server: DnsServer, times: number): AbortSignal {
  const controller = new AbortController()
  void eventually(() => timesAsked(server) >= times, { everyMs: 5 }).then(() =>
    controller.abort(new DeadlineReached(1)),
  )
  return controller.signal
}

const portOf = ({ authority }: DnsServer) => Number(authority.split(':')[1])

// One try of half a minute, and one of a second, so that the resolver itself gives up.
const patient = temporaryFile('patient.conf', 'options timeout:30 attempts:1\n')
const impatient = temporaryFile('resolv.conf', 'options timeout:1 attempts:1\n')

function resolve(nameServers: NameServers, signal: AbortSignal, resolvConf = patient) {
  const resolver = createResolver({ useOsResolver: false, resolvConf, nameServers })
  return codeOf(resolver.resolve('www.zone.example', 'IPv4', signal))
}

const SERVERS: [string, Zone, string][] = [
  ['answers nothing', { '*': 'silent' }, 'RESOLVER_UNREACHABLE'],
  ['does not answer for one name', { 'www.zone.example': 'silent' }, 'about the name'],
  ['refuses everything', { '*': 'REFUSED' }, 'RESOLVER_UNREACHABLE'],
  ['refuses one name', { 'www.zone.example': 'REFUSED' }, 'about the name'],
  ['fails with everything', { '*': 'SERVFAIL' }, 'about the name'],
]

describe.concurrent.each(SERVERS)('a server that %s', (_, zone, expected) => {
  const isOurs = expected === 'RESOLVER_UNREACHABLE'
  const isSilent = Object.values(zone).includes('silent')
  const signalFor = (server: DnsServer) =>
    isSilent ? deadlineAtRoot(server, isOurs ? 3 : 1) : never

  test('for a monitor that has to resolve a name', async () => {
    await using server = await startDnsServer(zone)
    const ofTheName = isSilent ? 'deadline' : 'DNS_SERVER_FAILED'
    const code = await resolve(server.nameServers, signalFor(server))
    expect(code).toBe(isOurs ? expected : ofTheName)
  })

  test('for a DNS monitor without a named server', async () => {
    await using server = await startDnsServer(zone)
    const options = { system: systemServers([portOf(server)]), signal: signalFor(server) }
    const { codes } = await checkDns({}, { maxResponseTime: 5000 }, options)
    const ofTheName = isSilent ? 'TIMEOUT_FIRST_BYTE' : 'DNS_RESPONSE_CODE'
    expect(codes).toEqual([isOurs ? expected : ofTheName])
  })
})

test('a server that does not run is an error of our own', async () => {
  const system = systemServers([await freePort()])
  const nameServers = new NameServers(() => system, QUICK)
  expect(await resolve(nameServers, never)).toBe('RESOLVER_UNREACHABLE')
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
})

test('a second server that answers is enough', async () => {
  await using second = await startDnsServer({ 'www.zone.example': 'silent' })
  const system = systemServers([await freePort(), portOf(second)])
  const nameServers = new NameServers(() => system, QUICK)
  expect(await resolve(nameServers, never, impatient)).toBe('DNS_SERVER_FAILED')
})

describe.concurrent('at the deadline, while the name is still looked up', () => {
  test('unresponsive servers are known at once the next time', async () => {
    await using server = await startDnsServer({ '*': 'silent' })
    for (const times of [3, 0]) {
      const code = await resolve(server.nameServers, deadlineAtRoot(server, times))
      expect(code).toBe('RESOLVER_UNREACHABLE')
    }
  })

  test('servers that recover meanwhile do not turn the lost question into a failure of the name', async () => {
    const zone: Zone = { '*': 'silent' }
    await using server = await startDnsServer(zone)
    const deadline = new AbortController()
    const lost = resolve(server.nameServers, deadline.signal)
    await eventually(() => timesAsked(server) >= 3, { everyMs: 5 })
    Object.assign(zone, { '*': [], 'www.zone.example': 'silent' })
    await eventually(async () => (await server.nameServers.problem(0, never)) === undefined)
    deadline.abort(new DeadlineReached(1))
    expect(await lost).toBe('RESOLVER_UNREACHABLE')
    const signal = deadlineAtRoot(server, timesAsked(server) + 1)
    expect(await resolve(server.nameServers, signal)).toBe('deadline')
  })

  test('a cancelled question rejects with its own reason', async () => {
    await using server = await startDnsServer({ '*': 'silent' })
    const controller = new AbortController()
    const code = resolve(server.nameServers, controller.signal)
    controller.abort(new Error('enough'))
    expect(await code).toBe('Error: enough')
  })
})

test('concurrent questions share one query for the root', async () => {
  await using server = await startDnsServer({ '*': 'REFUSED' })
  const all = Array.from({ length: 50 }, () => resolve(server.nameServers, never))
  expect(new Set(await Promise.all(all))).toEqual(new Set(['RESOLVER_UNREACHABLE']))
  expect(timesAsked(server)).toBeLessThan(all.length)
})

test('an answer to another question meanwhile counts', async () => {
  await using server = await startDnsServer({ '*': 'REFUSED' })
  const sinceMs = performance.now()
  const { nameServers } = server
  expect(await nameServers.problem(sinceMs, never)).toMatchObject({ code: 'RESOLVER_UNREACHABLE' })
  nameServers.noteAnswer()
  expect(await nameServers.problem(sinceMs, never)).toBeUndefined()
})
