// Debian's name servers on free ports of loopback, with test zones: unbound (UDP, TCP, TLS, HTTPS, validation) and
// dnsmasq.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Resolver } from 'node:dns/promises'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { KeyPair } from '../../network/certificates.ts'
import { freePort } from '../../network/free-port.ts'

/** A running name server. */
export interface NameServer extends AsyncDisposable {
  pid: number
  port: number
}

/** A zone file, and the key or digest of its trust anchor. */
export interface Zone {
  name: string
  text: string
  trustAnchor?: string
}

/** An unbound, with the ports of its encrypted protocols. */
export interface Unbound extends NameServer {
  tlsPort: number
  httpsPort: number
}

const READY_MS = 5000

/** Starts unbound with these zones; rejects when it does not answer within 5 s. */
export async function startUnbound(zones: readonly Zone[], pair: KeyPair): Promise<Unbound> {
  const folder = mkdtempSync(join(tmpdir(), 'vedette-unbound-'))
  const [port, tlsPort, httpsPort] = [await freePort(), await freePort(), await freePort()]
  writeFileSync(join(folder, 'cert.pem'), pair.cert)
  writeFileSync(join(folder, 'key.pem'), pair.key)
  for (const { name, text } of zones) writeFileSync(join(folder, name), text)
  const anchors = zones.flatMap(({ trustAnchor }) => trustAnchor ?? [])
  const configuration = `
server:
  directory: "${folder}"
  chroot: ""
  username: ""
  pidfile: ""
  use-syslog: no
  do-daemonize: no
  num-threads: 1
  incoming-num-tcp: 1000
  interface: 127.0.0.1@${port}
  interface: 127.0.0.1@${tlsPort}
  interface: 127.0.0.1@${httpsPort}
  tls-port: ${tlsPort}
  https-port: ${httpsPort}
  tls-service-key: key.pem
  tls-service-pem: cert.pem
  ede: yes
  nsid: "ascii_test-server"
  identity: "unbound of a test"
  minimal-responses: no
${zones.map(({ name }) => `  local-zone: "${name}." nodefault`).join('\n')}
${anchors.map((anchor) => `  trust-anchor: "${anchor}"`).join('\n')}
remote-control:
  control-enable: no
${zones.map(authZone).join('')}`
  writeFileSync(join(folder, 'unbound.conf'), configuration)
  const args = ['-d', '-c', join(folder, 'unbound.conf')]
  const server = await startServer('unbound', args, port, folder)
  return { ...server, tlsPort, httpsPort }
}

/** A zone with a trust anchor is answered as a validated remote zone, others as local ones. */
function authZone({ name, trustAnchor }: Zone): string {
  const isOwn = trustAnchor === undefined
  return `auth-zone:
  name: "${name}."
  zonefile: "${name}"
  fallback-enabled: no
  for-upstream: yes
  for-downstream: ${isOwn ? 'yes' : 'no'}
`
}

/** Starts dnsmasq with these lines of configuration; rejects when it does not answer within 5 s. */
export async function startDnsmasq(lines: readonly string[]): Promise<NameServer> {
  const folder = mkdtempSync(join(tmpdir(), 'vedette-dnsmasq-'))
  const port = await freePort()
  const file = join(folder, 'dnsmasq.conf')
  const own = ['no-resolv', 'no-hosts', 'no-daemon', 'bind-interfaces', 'pid-file=', `port=${port}`]
  own.push('listen-address=127.0.0.1', 'user=')
  writeFileSync(file, [...own, ...lines, ''].join('\n'))
  return startServer('dnsmasq', [`--conf-file=${file}`], port, folder)
}

async function startServer(
  program: string,
  args: string[],
  port: number,
  folder: string,
): Promise<NameServer> {
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] })
  let complaint = ''
  child.stderr.on(
    'data',
    (chunk: Buffer) => (complaint = (complaint + chunk.toString()).slice(-2000)),
  )
  const exited = once(child, 'exit')
  const kill = () => void child.kill('SIGKILL')
  process.once('exit', kill)
  const isUp = await speaks(port, AbortSignal.timeout(READY_MS))
  if (!isUp || child.pid === undefined) throw new Error(`${program} did not start: ${complaint}`)
  return {
    pid: child.pid,
    port,
    async [Symbol.asyncDispose]() {
      process.off('exit', kill)
      child.kill('SIGTERM')
      await exited
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Whether the port gives any answer. */
async function speaks(port: number, signal: AbortSignal): Promise<boolean> {
  while (!signal.aborted) {
    const resolver = new Resolver({ timeout: 100, tries: 1 })
    resolver.setServers([`127.0.0.1:${port}`])
    const code = await resolver.resolve4('any.test').then(
      () => 'answered',
      (error: NodeJS.ErrnoException) => error.code,
    )
    if (code !== 'ECONNREFUSED' && code !== 'ETIMEOUT') return true
    // Without a listener the kernel refuses at once.
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  return false
}
