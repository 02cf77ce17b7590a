// A TLS server of the openssl command, where Node's own server differs from most: it sends the client an alert when
// it rejects its certificate.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { KeyPair } from '../../network/certificates.ts'

/** Starts `openssl s_server` with a status page over HTTP. `options` are more arguments. */
export async function startOpensslServer(
  pair: KeyPair,
  ca: string,
  options: string[],
): Promise<AsyncDisposable & { port: number }> {
  const folder = mkdtempSync(join(tmpdir(), 'vedette-s-server-'))
  writeFileSync(join(folder, 'cert.pem'), pair.cert)
  writeFileSync(join(folder, 'key.pem'), pair.key)
  writeFileSync(join(folder, 'ca.pem'), ca)
  const args = 's_server -accept 127.0.0.1:0 -cert cert.pem -key key.pem -CAfile ca.pem -www'
  const child = spawn('openssl', [...args.split(' '), ...options], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  let output = ''
  let port: number | undefined
  while (port === undefined) {
    const [chunk] = (await once(child.stdout, 'data')) as [Buffer]
    output += chunk.toString()
    const found = /ACCEPT \S*?:(\d+)\s/.exec(output)
    if (found !== null) port = Number(found[1])
  }
  child.stdout.resume()
  return {
    port,
    async [Symbol.asyncDispose]() {
      const exited = once(child, 'exit')
      child.kill('SIGKILL')
      await exited
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
