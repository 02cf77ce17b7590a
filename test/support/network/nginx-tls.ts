// A real nginx that speaks one version of TLS with a given certificate.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { KeyPair } from './certificates.ts'
import { freePort } from './free-port.ts'
import { type Nginx, startNginx } from './nginx.ts'

/** Starts it; `version` as nginx names it, `TLSv1.3`. With `http2` it offers HTTP/2 as well. */
export async function startTlsNginx(
  { cert, key }: KeyPair,
  version: string,
  http2 = false,
): Promise<Pick<Nginx, 'port' | 'close'>> {
  const folder = await mkdtemp(join(tmpdir(), 'vedette-nginx-tls-'))
  const [certFile, keyFile] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  await Promise.all([writeFile(certFile, cert), writeFile(keyFile, key)])
  const port = await freePort()
  const nginx = await startNginx(
    `server { listen 127.0.0.1:${port} ssl ${http2 ? 'http2 ' : ''}backlog=4096; ssl_protocols ${version};
      ssl_certificate ${certFile}; ssl_certificate_key ${keyFile}; }`,
  )
  return {
    port,
    async close() {
      await nginx.close()
      await rm(folder, { recursive: true })
    },
  }
}
