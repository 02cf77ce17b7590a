// A registry on loopback with the packages of this project's own Playwright: benches install them without a network.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const MODULES = fileURLToPath(new URL('../../../node_modules', import.meta.url))
const NAMES = ['@playwright/test', 'playwright', 'playwright-core']
const TARBALL_BYTES_MAX = 64 * 1_048_576

/** The registry, for `npm_config_registry`. */
export interface PackedPackages {
  url: string
  close(): void
}

/** Starts it. */
export async function servePackages(): Promise<PackedPackages> {
  const answers = new Map<string, Buffer>()
  const server = createServer(({ url = '' }, response) => {
    const found = answers.get(decodeURIComponent(url))
    response.writeHead(found === undefined ? 404 : 200).end(found ?? '{"error":"Not found"}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  for (const name of NAMES) add(answers, name, url)
  return { url, close: () => server.close() }
}

function add(answers: Map<string, Buffer>, name: string, url: string): void {
  const folder = join(MODULES, name)
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest
  const prefix = `s,^${name.split('/').at(-1)},package,`
  const order = ['-cz', '--transform', prefix, '-C', dirname(folder), name.split('/').at(-1) ?? '']
  const tarball = execFileSync('tar', order, { maxBuffer: TARBALL_BYTES_MAX })
  const path = `/${name}/-/${manifest.version}.tgz`
  answers.set(path, tarball)
  const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`
  // Packages for other systems are not installed here, and would be missing in a lock file.
  const { optionalDependencies: _, ...needed } = manifest
  const version = { ...needed, dist: { tarball: url + path, integrity } }
  const tags = { latest: manifest.version }
  const document = { name, 'dist-tags': tags, versions: { [manifest.version]: version } }
  answers.set(`/${name}`, Buffer.from(JSON.stringify(document)))
}

interface Manifest {
  version: string
  optionalDependencies?: unknown
}
