// Debian's unbound on free ports of loopback (UDP, TCP, TLS, HTTPS), with the zones of tests of DNS monitors.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Resolver } from 'node:dns/promises'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { KeyPair } from '../../network/certificates.ts'
import { freePort } from '../../network/free-port.ts'

/** A running unbound, with the ports of its protocols. */
export interface Unbound extends AsyncDisposable {
  pid: number
  port: number
  tlsPort: number
  httpsPort: number
}

export interface Zone {
  name: string
  text: string
}

const READY_MS = 5000

/** Starts unbound with these zones; rejects when it does not answer within 5 s. */
export async function startUnbound(zones: readonly Zone[], pair: KeyPair): Promise<Unbound> {
  const folder = mkdtempSync(join(tmpdir(), 'vedette-unbound-'))
  const [port, tlsPort, httpsPort] = [await freePort(), await freePort(), await freePort()]
  writeFileSync(join(folder, 'cert.pem'), pair.cert)
  writeFileSync(join(folder, 'key.pem'), pair.key)
  for (const { name, text } of zones) writeFileSync(join(folder, name), text)
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
  nsid: "ascii_test-server"
  identity: "unbound of a test"
  minimal-responses: no
${zones.map(({ name }) => `  local-zone: "${name}." nodefault`).join('\n')}
remote-control:
  control-enable: no
${zones.map(authZone).join('')}`
  writeFileSync(join(folder, 'unbound.conf'), configuration)
  const child = spawn('unbound', ['-d', '-c', join(folder, 'unbound.conf')], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let complaint = ''
  child.stderr.on('data', (chunk: Buffer) => (complaint += chunk.toString()))
  const exited = once(child, 'exit')
  const kill = () => void child.kill('SIGKILL')
  process.once('exit', kill)
  const isUp = await speaks(port, AbortSignal.timeout(READY_MS))
  if (!isUp || child.pid === undefined) throw new Error(`unbound did not start: ${complaint}`)
  return {
    pid: child.pid,
    port,
    tlsPort,
    httpsPort,
    async [Symbol.asyncDispose]() {
      process.off('exit', kill)
      child.kill('SIGTERM')
      await exited
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function authZone({ name }: Zone): string {
  return `auth-zone:
  name: "${name}."
  zonefile: "${name}"
  fallback-enabled: no
  for-upstream: yes
  for-downstream: yes
`
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
