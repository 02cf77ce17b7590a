// Real programs in the sandbox resolve names and connect; what the policy forbids is refused, and named.
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { IN_REACH } from '../support/in-reach.ts'
import { missing } from '../support/needs.ts'
import type { ProgramSaid } from '../support/network/network-programs.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const PROGRAM = fileURLToPath(new URL('../support/network/network-programs.ts', import.meta.url))
const isRoot = process.getuid?.() === 0
const why = isRoot ? missing('dnsmasq', 'ip', 'curl') : 'needs root, for a network of its own'
const METADATA = { address: '169.254.169.254', network: '169.254.0.0/16', port: 80 }
const FORBIDDEN = { ...METADATA, name: 'metadata.test' }

/** As the machine's own root, and as somebody without any privilege. */
const RIGHTS: [string, string[]][] = [
  ['root', []],
  [
    'nobody',
    [
      ...IN_REACH,
      'setpriv',
      '--reuid=65534',
      '--regid=65534',
      '--clear-groups',
      '--inh-caps=-all',
      '--ambient-caps=-all',
    ],
  ],
]
/** Addresses of documentation, and anybody may be a name server. */
const NETWORK = `mount --bind "$1/resolv.conf" /etc/resolv.conf
ip link set lo up
ip address add 203.0.113.5/32 dev lo
ip -6 address add 2001:db8::5/128 dev lo nodad
echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start
shift
exec "$@"`

async function programs(rights: string[], ...names: string[]): Promise<Map<string, ProgramSaid>> {
  const folder = temporaryFolder()
  writeFileSync(join(folder, 'resolv.conf'), 'nameserver 127.0.0.1\n')
  const run = [...rights, process.execPath, PROGRAM, ...names]
  const args = ['--net', '--mount', 'sh', '-c', NETWORK, 'sh', folder, ...run]
  const { stdout } = await promisify(execFile)('unshare', args)
  const said = stdout.trim().split('\n')
  return new Map(
    said.map((line) => JSON.parse(line) as ProgramSaid).map((one) => [one.program, one]),
  )
}

describe.skipIf(why !== undefined)(`names in the sandbox ${why ?? ''}`, () => {
  test.each(RIGHTS)(
    'as %s: Node.js and curl reach them, and refused connections are reported',
    async (_, rights) => {
      const said = await programs(rights, 'node', 'resolver', 'curl')
      const node = said.get('node')
      expect(node?.said).toMatch(
        /reached four\.test.*reached six\.test.*reached both\.test.*ENOTFOUND\nEACCES\n/s,
      )
      expect(node?.blocked).toEqual([FORBIDDEN])
      expect(said.get('resolver')?.said).toContain('2001:db8::5')
      expect(said.get('curl')?.said).toMatch(/reached four\.test.*reached both\.test.*\(7\) /s)
      expect(said.get('curl')?.blocked).toEqual([FORBIDDEN])
    },
  )

  test.skipIf(missing('chromium') !== undefined).each(RIGHTS)(
    `as %s: Chromium reaches them, and neither picture, socket nor redirect what is forbidden ${missing('chromium') ?? ''}`,
    async (_, rights) => {
      const said = await programs(rights, 'chromium')
      const six = said.get('chromium')
      expect(six?.said).toMatch(/socket refused.*reached six\.test/s)
      expect(six?.blocked).toEqual([FORBIDDEN, FORBIDDEN])
      expect(said.get('chromium, both families')?.said).toContain('reached both.test')
      const redirected = said.get('chromium, redirected')
      expect(redirected?.said).toContain('ERR_NETWORK_ACCESS_DENIED')
      expect(redirected?.blocked[0]).toEqual(FORBIDDEN)
    },
  )
})
