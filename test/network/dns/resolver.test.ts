// Aim: names are resolved according to the system's files, with real queries to a real server, and each kind of
// failure has its code.
import { rmSync, utimesSync, writeFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { Family } from '../../../src/network/dial.ts'
import { createResolver } from '../../../src/network/dns/resolver.ts'
import { TargetFailure } from '../../../src/network/target-failure.ts'
import { watchedFile } from '../../../src/network/watched-file.ts'
import { startDnsServer, type Zone } from '../../support/monitors/dns/dns-server.ts'
import { temporaryFile } from '../../support/temporary-folder.ts'

const hostsFile = temporaryFile(
  'hosts',
  '192.0.2.7 Box.example box # a comment\n::7 box\n192.0.2.8 box\nnonsense here\n',
)

const ZONE: Zone = {
  'www.example': ['192.0.2.1', '192.0.2.2', '2001:db8::1'],
  'four.example': ['192.0.2.4'],
  'broken.example': 'SERVFAIL',
  'refused.example': 'REFUSED',
  'quiet.example': 'silent',
  'db.ns.svc.cluster.local': ['10.0.0.5'],
  'ext.example.svc.cluster.local': ['10.0.0.6'],
  'ext.example': ['192.0.2.9'],
}

async function resolve(host: string, family: Family = 'IPv4', conf = '', signal?: AbortSignal) {
  await using server = await startDnsServer(ZONE)
  const resolvConf = temporaryFile('resolv.conf', `options timeout:1 attempts:1\n${conf}`)
  const { nameServers } = server
  const resolver = createResolver({ useOsResolver: false, hostsFile, resolvConf, nameServers })
  const addresses = await resolver
    .resolve(host, family, signal ?? new AbortController().signal)
    .catch((error: unknown) => {
      if (error instanceof TargetFailure) return error.failure.code
      throw error
    })
  return { addresses, asked: server.asked }
}

describe('without a server', () => {
  test.each<[string, string, Family, string[]]>([
    ['a literal is itself', '192.0.2.3', 'IPv4', ['192.0.2.3']],
    ['a literal wins over the family', '::3', 'IPv4', ['::3']],
    ['a short form is a literal', '127.1', 'IPv4', ['127.0.0.1']],
    ['the hosts file has several of a family', 'box', 'IPv4', ['192.0.2.7', '192.0.2.8']],
    ['regardless of case', 'BOX.Example', 'IPv4', ['192.0.2.7']],
    ['with a trailing dot', 'box.', 'IPv6', ['::7']],
    ['localhost is loopback', 'localhost', 'IPv4', ['127.0.0.1']],
    ['and below it too', 'a.localhost', 'IPv6', ['::1']],
  ])('%s: %s', async (_, host, family, expected) => {
    expect(await resolve(host, family)).toEqual({ addresses: expected, asked: [] })
  })
})

describe('with a server', () => {
  test.each<[string, string, Family, string[] | string]>([
    ['all addresses in the order given', 'www.example', 'IPv4', ['192.0.2.1', '192.0.2.2']],
    ['version 6', 'www.example', 'IPv6', ['2001:db8::1']],
    ['no address of the family', 'four.example', 'IPv6', 'DNS_NO_ADDRESS'],
    ['no such name', 'nowhere.example', 'IPv4', 'DNS_NOT_FOUND'],
    ['a name that cannot be', 'a b', 'IPv4', 'DNS_NOT_FOUND'],
    ['a server that fails', 'broken.example', 'IPv4', 'DNS_SERVER_FAILED'],
    ['a server that refuses', 'refused.example', 'IPv4', 'DNS_SERVER_FAILED'],
    ['a server that does not answer', 'quiet.example', 'IPv4', 'DNS_SERVER_FAILED'],
  ])('%s: %s', async (_, host, family, expected) => {
    expect((await resolve(host, family)).addresses).toEqual(expected)
  })

  const conf = 'search svc.cluster.local cluster.local\noptions ndots:3\n'
  // The search list comes first below ndots, and a trailing dot skips it.
  test.each<[string, string, string[] | string, string[]]>([
    ['db.ns', conf, ['10.0.0.5'], ['db.ns.svc.cluster.local']],
    ['ext.example', conf, ['10.0.0.6'], ['ext.example.svc.cluster.local']],
    ['ext.example.', conf, ['192.0.2.9'], ['ext.example']],
    ['ext.example', 'search svc.cluster.local', ['192.0.2.9'], ['ext.example']],
    ['nope', conf, 'DNS_NOT_FOUND', ['nope.svc.cluster.local', 'nope.cluster.local', 'nope']],
  ])('%s with %j', async (host, resolvConf, addresses, asked) => {
    expect(await resolve(host, 'IPv4', resolvConf)).toEqual({ addresses, asked })
  })

  test('every look-up sends a new query', async () => {
    await using server = await startDnsServer(ZONE)
    const resolver = createResolver({ useOsResolver: false, nameServers: server.nameServers })
    const { signal } = new AbortController()
    for (const _ of [1, 2, 3]) await resolver.resolve('www.example.', 'IPv4', signal)
    expect(server.asked).toHaveLength(3)
  })

  test('rejects at once when aborted', async () => {
    const controller = new AbortController()
    const reason = new Error('enough')
    const pending = resolve('quiet.example', 'IPv4', '', controller.signal)
    const outcome = pending.catch((error: unknown) => error)
    controller.abort(reason)
    expect(await outcome).toBe(reason)
  })
})

test('the system resolver knows the same names', async () => {
  const resolver = createResolver({ useOsResolver: true })
  const { signal } = new AbortController()
  expect(await resolver.resolve('localhost', 'IPv4', signal)).toEqual(['127.0.0.1'])
})

test('a changed file is read again, after a second at the earliest', () => {
  const path = temporaryFile('watched', 'one')
  let nowMs = 0
  let reads = 0
  const read = watchedFile(
    path,
    (text) => (reads++, text),
    () => nowMs,
  )
  expect(read()).toBe('one')
  writeFileSync(path, 'two')
  utimesSync(path, 5, 5)
  nowMs = 999
  expect(read()).toBe('one')
  nowMs = 1000
  expect(read()).toBe('two')
  nowMs = 5000
  expect(read()).toBe('two')
  expect(reads).toBe(3)
  rmSync(path)
  nowMs = 9000
  expect(read()).toBe('')
})
