// Aim: `vedette doctor` sends packets to this machine, the name servers and the platform alone, although the browser
// that it starts has requests of its own.
import { execFileSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { agentOf, examine } from '../../support/agent/doctor-process.ts'
import { missing } from '../../support/needs.ts'
import { createNetworkNamespace, withResolvConf } from '../../support/network/network-namespace.ts'
import { temporaryFile } from '../../support/temporary-folder.ts'

const why = process.getuid?.() === 0 ? missing('chromium', 'ip', 'nft') : 'needs root'

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

test.skipIf(why !== undefined)(`it sends to those alone ${why ?? ''}`, async () => {
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
