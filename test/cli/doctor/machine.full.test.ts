// Aim: `vedette doctor` on the whole: for users without rights, in networks of their own, and with the real browser.
import { execFileSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { AS_NOBODY } from '../../support/as-nobody.ts'
import { agentOf, examine, onFile } from '../../support/cli/doctor-process.ts'
import { missing } from '../../support/needs.ts'
import { createNetworkNamespace, withResolvConf } from '../../support/network/network-namespace.ts'
import { temporaryFile, temporaryFolder } from '../../support/temporary-folder.ts'

const isRoot = process.getuid?.() === 0
/** Tests that do not run as root are unprivileged already. */
const asNobody = isRoot ? AS_NOBODY : []

describe('ICMP without privileges', () => {
  /** A network of its own, with the range of groups that may send echoes. */
  function prefixWith(range: string): string[] {
    const network = createNetworkNamespace()
    onTestFinished(() => network.remove())
    const { prefix } = network
    const [command = '', ...args] = prefix
    const allow = `sysctl -qw net.ipv4.ping_group_range="${range}"`
    execFileSync(command, [...args, 'sh', '-c', allow])
    return [...prefix, ...AS_NOBODY]
  }

  test('forbidden: the fix is the kernel parameter', async ({ skip }) => {
    skip(!isRoot, 'needs root, to make a network in which it is forbidden')
    const said = await examine({ env: onFile(), prefix: prefixWith('1 0') })
    const fix = expect.stringContaining('net.ipv4.ping_group_range="0 2147483647"') as string
    expect(said.code).toBe(1)
    expect(said.found('icmp')).toMatchObject({ standing: 'broken', fix })
    expect(said.found('traceroute')).toMatchObject({
      standing: 'broken',
      fix,
      facts: { TCP: true, UDP: true, ICMP: false, SCTP: false },
    })
  })

  test('allowed by that parameter', async ({ skip }) => {
    skip(!isRoot, 'needs root, to make a network in which it is allowed')
    const said = await examine({ env: onFile(), prefix: prefixWith('0 2147483647') })
    expect(said.found('icmp')).toMatchObject({
      standing: 'works',
      facts: { socket: 'datagram', raw: 'EPERM' },
    })
    expect(said.found('traceroute')?.standing).toBe('works')
  })
})

test.for([
  ['the user of the tests', []],
  ['a user without any right', asNobody],
] as const)(
  'the browser starts, for %s, and leaves nothing behind',
  async ([, prefix], { skip }) => {
    const why = missing('chromium')
    skip(why !== undefined, why)
    const folder = temporaryFolder()
    chmodSync(folder, 0o777)
    const env = { ...onFile(), CHROMIUM_PATH: '/usr/bin/chromium', DATA_DIR: folder }
    const said = await examine({ env, prefix })
    expect(said.found('browser')).toMatchObject({
      standing: 'works',
      facts: { version: expect.stringMatching(/\d+\.\d+\.\d+/) as string },
    })
    expect(readdirSync(folder)).toEqual([])
  },
)

test('root without its capabilities: the fix is another user', async ({ skip }) => {
  skip(!isRoot, 'needs root')
  const tools = temporaryFolder()
  const own = join(tools, 'engines', 'node@24')
  mkdirSync(own, { recursive: true })
  writeFileSync(join(own, 'installed.json'), '{"program":"node","missing":[]}')
  writeFileSync(join(own, 'node'), '#!/bin/sh\necho v24.9.9\n', { mode: 0o755 })
  const prefix = ['setpriv', '--inh-caps=-all', '--bounding-set=-all']
  const said = await examine({ env: { ...onFile(), TOOLS_DIR: tools }, prefix })
  expect(said.code).toBe(1)
  expect(said.found('sandbox')).toMatchObject({
    standing: 'broken',
    fix: expect.stringMatching(/--user|runAsUser/) as string,
  })
})

/** Counts packets to the name server and the platform; all others (except neighbour discovery) count as other. */
const rules = (hostAddress: string) => `
table inet watch {
  counter asked {}
  counter other {}
  chain out {
    type filter hook output priority 0;
    oif lo accept
    icmpv6 type { nd-neighbor-solicit, nd-router-solicit, mld2-listener-report } accept
    ip daddr ${hostAddress} udp dport 53 counter name asked accept
    ip daddr ${hostAddress} tcp dport 8443 counter name asked accept
    counter name other
  }
}`

test('packets go to the name servers and the platform alone, also those of the browser', async ({
  skip,
}) => {
  const why = isRoot ? missing('chromium', 'ip', 'nft') : 'needs root'
  skip(why !== undefined, why)
  const network = createNetworkNamespace()
  const { hostAddress, prefix } = network
  const inside = (command: string, ...args: string[]) =>
    execFileSync(prefix[0] ?? '', [...prefix.slice(1), command, ...args], { encoding: 'utf8' })
  const mute = createSocket('udp4').bind(53, hostAddress)
  try {
    await once(mute, 'listening')
    const ruleset = temporaryFile('rules', rules(hostAddress))
    // A default route, so that unexpected packets leave and are counted.
    inside('ip', 'route', 'add', 'default', 'via', hostAddress)
    inside('nft', '-f', ruleset)
    const env = { ...agentOf(`http://${hostAddress}:8443`), CHROMIUM_PATH: '/usr/bin/chromium' }
    const withServer = withResolvConf(`nameserver ${hostAddress}\n`)
    const said = await examine({ env, prefix: [...prefix, ...withServer] })
    expect(said.found('browser')?.standing).toBe('works')
    const counted = (name: string) =>
      Number(/packets (\d+)/.exec(inside('nft', 'list', 'counter', 'inet', 'watch', name))?.[1])
    expect(counted('asked')).toBeGreaterThan(1)
    expect(counted('other')).toBe(0)
  } finally {
    mute.close()
    network.remove()
  }
})
