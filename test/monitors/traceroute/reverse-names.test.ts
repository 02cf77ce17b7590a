// Aim: names of addresses come from a name server without ever being waited for longer than a moment, are
// kept, and a server that is silent or wrong costs nothing but the names.
import packet from 'dns-packet'
import { expect, test } from 'vitest'
import {
  ReverseNames,
  type ReverseNameSettings,
} from '../../../src/monitors/traceroute/reverse-names.ts'
import {
  overUdp,
  rightAnswer,
  startHostileNameServer,
  type HostileNameServer,
} from '../../support/monitors/dns/hostile-name-server.ts'
import { startStopwatch } from '../../support/stopwatch.ts'

const never = new AbortController().signal
const ADDRESS = '192.0.2.1'

/** A name server that gives every address the name, or none; and a memory that asks it. */
async function startNames(name: () => string | undefined, settings: ReverseNameSettings = {}) {
  const answer = (query: Buffer) => {
    const data = name()
    if (data === undefined) return rightAnswer(query, { rcode: 3, answers: [] })
    const [question] = packet.decode(query).questions ?? []
    const answers = [{ type: 'PTR', name: question?.name ?? '', ttl: 60, data }] as const
    return rightAnswer(query, { answers: [...answers] })
  }
  const server = await startHostileNameServer(overUdp(answer))
  return Object.assign(server, { names: namesOf(server, settings) })
}

function namesOf({ port }: HostileNameServer, settings: ReverseNameSettings = {}): ReverseNames {
  return new ReverseNames({ servers: [`127.0.0.1:${port}`], ...settings })
}

async function lookUp(names: ReverseNames, address: string, waitMs = 5000) {
  names.ask(address)
  await names.settle([address], waitMs, never)
  return names.name(address)
}

test('a name is asked for once, and kept', async () => {
  await using server = await startNames(() => 'r1.example')
  const { names } = server
  expect(names.name(ADDRESS)).toBeUndefined()
  expect(await lookUp(names, ADDRESS)).toBe('r1.example')
  expect(await lookUp(names, ADDRESS)).toBe('r1.example')
  expect(server.queries).toHaveLength(1)
  for (const address of ['2001:db8::1', 'fe80::1%eth0']) {
    expect(await lookUp(names, address)).toBe('r1.example')
  }
})

test('a name that changes is seen ten minutes later, and an old one shown until then', async () => {
  let name = 'old.example'
  let nowMs = 0
  await using server = await startNames(() => name, { now: () => nowMs })
  const { names } = server
  await lookUp(names, ADDRESS)
  name = 'new.example'
  for (const atMs of [599_000, 601_000]) {
    nowMs = atMs
    names.ask(ADDRESS)
    expect(names.name(ADDRESS)).toBe('old.example')
  }
  await expect.poll(() => names.name(ADDRESS)).toBe('new.example')
})

test('no name: of an address that has none is not asked for again for a minute', async () => {
  let nowMs = 0
  await using server = await startNames(() => undefined, { now: () => nowMs })
  const { names } = server
  for (const atMs of [0, 59_000, 61_000]) {
    nowMs = atMs
    expect(await lookUp(names, ADDRESS)).toBeUndefined()
  }
  expect(server.queries).toHaveLength(2)
})

test('no name: of a server that answers garbage: the wait is short, and the next run does not wait', async () => {
  await using server = await startHostileNameServer(overUdp(() => Buffer.from('garbage')))
  const names = namesOf(server)
  const ownMs = startStopwatch()
  expect(await lookUp(names, ADDRESS, 100)).toBeUndefined()
  expect(ownMs()).toBeLessThan(1000)
  await names.settle([ADDRESS], 10_000, never)
  const againMs = startStopwatch()
  expect(await lookUp(names, ADDRESS, 10_000)).toBeUndefined()
  expect(againMs()).toBeLessThan(100)
  expect(server.queries).toHaveLength(1)
})

test('an aborted signal ends the wait at once', async () => {
  await using server = await startHostileNameServer({})
  const names = namesOf(server)
  names.ask(ADDRESS)
  const controller = new AbortController()
  const ownMs = startStopwatch()
  const settled = names.settle([ADDRESS], 10_000, controller.signal)
  controller.abort()
  await settled
  expect(ownMs()).toBeLessThan(50)
})
