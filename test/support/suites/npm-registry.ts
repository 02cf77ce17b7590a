// An npm registry on loopback with the packages of a test.
import { createHash } from 'node:crypto'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { temporaryFolder } from '../temporary-folder.ts'
import { startHttpServer, type TestServer } from '../test-server.ts'

/** A package: its name, version, and files by path. */
export interface RegistryPackage {
  name: string
  version: string
  files: Record<string, string>
  dependencies?: Record<string, string>
  /** Its install script. */
  postinstall?: string
}

/** A package by `name@version`. */
export function pinned(spec: string, files: Record<string, string> = {}): RegistryPackage {
  const at = spec.lastIndexOf('@')
  return { name: spec.slice(0, at), version: spec.slice(at + 1), files }
}

/** A running registry. */
export interface NpmRegistry {
  server: TestServer
  /** Settings with which npm uses only this registry. */
  env: Record<string, string>
  /** A package-lock.json for a project that depends on one package, which depends on none. */
  lockOf(name: string): string
}

/** Starts a registry; with `stall` it accepts every request and never answers. */
export async function startNpmRegistry(
  packages: readonly RegistryPackage[],
  { stall = false } = {},
): Promise<NpmRegistry> {
  const answers = new Map<string, Buffer>()
  const server = await startHttpServer((request, response) => {
    if (stall) return
    const found = answers.get(decodeURIComponent(request.url ?? ''))
    response.writeHead(found === undefined ? 404 : 200)
    response.end(found ?? '{"error":"Not found"}')
  })
  const url = `http://${server.authority}`
  const known = new Map<string, Record<string, LockedVersion>>()
  for (const one of packages) {
    const tarball = pack(one)
    const path = `/${one.name}/-/${one.version}.tgz`
    answers.set(path, tarball)
    const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`
    const version = {
      name: one.name,
      version: one.version,
      dependencies: one.dependencies ?? {},
      ...(one.postinstall === undefined ? {} : { hasInstallScript: true }),
      dist: { tarball: url + path, integrity },
    }
    const versions = { ...known.get(one.name), [one.version]: version }
    known.set(one.name, versions)
    // Newer managers reject packages that have just been published.
    const time = Object.fromEntries(Object.keys(versions).map((name) => [name, RELEASED]))
    const document = { name: one.name, 'dist-tags': { latest: one.version }, versions, time }
    answers.set(`/${one.name}`, Buffer.from(JSON.stringify(document)))
  }
  const home = temporaryFolder()
  const { PATH = '' } = process.env
  return {
    server,
    env: { PATH, HOME: home, npm_config_registry: url, npm_config_fetch_retries: '0' },
    lockOf(name) {
      const [found] = Object.values(known.get(name) ?? {})
      if (found === undefined) throw new Error(`there is no ${name}`)
      const { version, hasInstallScript, dist } = found
      const { tarball: resolved, integrity } = dist
      const locked = { version, resolved, integrity, hasInstallScript }
      const project = { dependencies: { [name]: version } }
      const entries = { '': project, [`node_modules/${name}`]: locked }
      return JSON.stringify({ lockfileVersion: 3, requires: true, packages: entries })
    },
  }
}

interface LockedVersion {
  version: string
  hasInstallScript?: boolean
  dist: { tarball: string; integrity: string }
}

const RELEASED = '2020-01-01T00:00:00.000Z'

function pack({ name, version, files, dependencies = {}, postinstall }: RegistryPackage): Buffer {
  const folder = temporaryFolder()
  const manifest = JSON.stringify({ name, version, dependencies, scripts: { postinstall } })
  const all = { 'package.json': manifest, ...files }
  for (const [path, text] of Object.entries(all)) {
    const file = join(folder, 'package', path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
  }
  const tarball = join(folder, 'it.tgz')
  execFileSync('tar', ['-czf', tarball, '-C', folder, 'package'])
  return readFileSync(tarball)
}
