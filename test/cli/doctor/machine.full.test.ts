// Aim: `vedette doctor` on the whole: for users without rights, in networks of their own, and with the real browser.
import { execFileSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { AS_NOBODY } from '../../support/as-nobody.ts'
import { agentOf, examine, onFile } from '../../support/cli/doctor-process.ts'
import { missing } from '../../support/needs.ts'
import {
  createNetworkNamespace,
  type NetworkNamespace,
  withResolvConf,
} from '../../support/network/network-namespace.ts'
import { temporaryFile, temporaryFolder } from '../../support/temporary-folder.ts'

const isRoot = process.getuid?.() === 0
/** Tests that do not run as root are unprivileged already. */
const asNobody = isRoot ? AS_NOBODY : []

/** Runs a command in a network. */
const inside = ({ prefix: [ip = '', ...rest] }: NetworkNamespace, ...command: string[]) =>
  execFileSync(ip, [...rest, ...command], { encoding: 'utf8' })

const fix = expect.stringContaining('net.ipv4.ping_group_range="0 2147483647"') as string
const facts = { TCP: true, UDP: true, ICMP: false, SCTP: false }
const WORKS = { standing: 'works' }
const BROKEN = { standing: 'broken', fix }
const DATAGRAMS = { ...WORKS, facts: { socket: 'datagram', raw: 'EPERM' } }

test.for([
  ['forbidden', '1 0', BROKEN, { ...BROKEN, facts }],
  ['allowed', '0 2147483647', DATAGRAMS, WORKS],
] as const)('ICMP, %s by the kernel parameter', async ([, range, icmp, traceroute], { skip }) => {
  skip(!isRoot, 'needs root, to make a network of its own')
  const network = createNetworkNamespace()
  onTestFinished(() => network.remove())
  inside(network, 'sh', '-c', `sysctl -qw net.ipv4.ping_group_range="${range}"`)
  const env = onFile('ICMP', 'TRACEROUTE')
  const said = await examine({ env, prefix: [...network.prefix, ...AS_NOBODY] })
  expect([said.found('icmp'), said.found('traceroute')]).toMatchObject([icmp, traceroute])
})

test.for([
  ['the user of the tests', []],
  ['a user without any right', asNobody],
] as const)('the browser starts, for %s, and leaves nothing', async ([, prefix], { skip }) => {
  const why = missing('chromium')
  skip(why !== undefined, why)
  const DATA_DIR = temporaryFolder()
  chmodSync(DATA_DIR, 0o777)
  const env = { ...onFile('BROWSER'), CHROMIUM_PATH: '/usr/bin/chromium', DATA_DIR }
  const said = await examine({ env, prefix })
  const version = expect.stringMatching(/\d+\.\d+\.\d+/) as string
  expect(said.found('browser')).toMatchObject({ standing: 'works', facts: { version } })
  expect(readdirSync(DATA_DIR)).toEqual([])
})

test('root without its capabilities: the fix is another user', async ({ skip }) => {
  skip(!isRoot, 'needs root')
  const TOOLS_DIR = temporaryFolder()
  const own = join(TOOLS_DIR, 'engines', 'node@24')
  mkdirSync(own, { recursive: true })
  writeFileSync(join(own, 'installed.json'), '{"program":"node","missing":[]}')
  writeFileSync(join(own, 'node'), '#!/bin/sh\necho v24.9.9\n', { mode: 0o755 })
  const prefix = ['setpriv', '--inh-caps=-all', '--bounding-set=-all']
  const said = await examine({ env: { ...onFile('MULTI_STEP'), TOOLS_DIR }, prefix })
  expect(said.code).toBe(1)
  const user = expect.stringMatching(/--user|runAsUser/) as string
  expect(said.found('sandbox')).toMatchObject({ standing: 'broken', fix: user })
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
  const mute = createSocket('udp4').bind(53, hostAddress)
  try {
    await once(mute, 'listening')
    // A default route, so that unexpected packets leave and are counted.
    inside(network, 'ip', 'route', 'add', 'default', 'via', hostAddress)
    inside(network, 'nft', '-f', temporaryFile('rules', rules(hostAddress)))
    const env = { ...agentOf(`http://${hostAddress}:8443`), CHROMIUM_PATH: '/usr/bin/chromium' }
    const withServer = withResolvConf(`nameserver ${hostAddress}\n`)
    const said = await examine({ env, prefix: [...prefix, ...withServer] })
    expect(said.found('browser')?.standing).toBe('works')
    const counted = inside(network, 'nft', 'list', 'table', 'inet', 'watch')
    expect(counted).toMatch(/counter asked {\s+packets (?!0 |1 )\d+/)
    expect(counted).toMatch(/counter other {\s+packets 0 /)
  } finally {
    mute.close()
    network.remove()
  }
})
