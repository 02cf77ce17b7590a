// Requirements of tests on system programs. Without a program its tests are skipped with the command that enables
// them; in CI a missing program is a failure.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/** Debian package of each program. */
const PACKAGES = {
  chromium: 'chromium',
  nginx: 'nginx-light',
  curl: 'curl',
  openssl: 'openssl',
  ip: 'iproute2',
  nft: 'nftables',
  setpriv: 'util-linux',
  faketime: 'faketime',
  unbound: 'unbound',
  dnsmasq: 'dnsmasq-base',
  pgbouncer: 'pgbouncer',
  ping: 'iputils-ping',
  prometheus: 'prometheus',
  'docker-compose': 'docker-compose',
  'prometheus-blackbox-exporter': 'prometheus-blackbox-exporter',
} as const
export type Program = keyof typeof PACKAGES

/** Why a test that needs these programs cannot run here, or undefined when it can. Throws in CI. */
export function missing(...programs: Program[]): string | undefined {
  const uninstalled = programs.filter((program) => !isInstalled(program))
  if (uninstalled.length === 0) return undefined
  const why = `needs ${uninstalled.join(', ')}: apt-get install ${uninstalled.map((one) => PACKAGES[one]).join(' ')}`
  if (process.env['CI'] !== undefined) throw new Error(why)
  return why
}

function isInstalled(program: Program): boolean {
  try {
    execFileSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** Why Chromium's own sandbox is unavailable here, or undefined: containers get no namespaces by default. */
export function withoutNamespaces(): string | undefined {
  try {
    execFileSync('unshare', ['--user', '--net', '--pid', '--fork', 'true'], { stdio: 'ignore' })
    return undefined
  } catch {
    return 'needs user namespaces'
  }
}

/** Why this user cannot send ICMP echoes here, or undefined. Users other than root need a group of the kernel's parameter. */
export function withoutEchoes(): string | undefined {
  if (process.getuid?.() === 0) return undefined
  const range = readFileSync('/proc/sys/net/ipv4/ping_group_range', 'utf8')
  const [first = 1, last = 0] = range.split('\t').map(Number)
  const groups = [process.getgid?.() ?? -1, ...(process.getgroups?.() ?? [])]
  if (groups.some((group) => first <= group && group <= last)) return undefined
  return 'needs ICMP sockets: sysctl -w net.ipv4.ping_group_range="0 2147483647"'
}
