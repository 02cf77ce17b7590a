// Writes the bill of materials of the image that it runs in, as CycloneDX 1.6 (https://cyclonedx.org); its argument
// names the image. It lists every Debian package, every npm package of the program, the engines and the runtimes, and
// Node.js itself. The packages are those on the disk, not those that a manifest requests.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

interface Component {
  type: 'library' | 'platform' | 'application'
  'bom-ref': string
  name: string
  group?: string
  version: string
  purl: string
  hashes?: { alg: 'SHA-256' | 'SHA-512'; content: string }[]
  licenses?: { license: { name: string } }[]
  properties?: { name: string; value: string }[]
}

interface Manifest {
  name?: unknown
  version?: unknown
  license?: unknown
}

const readJson = (path: string): unknown => JSON.parse(readFileSync(path, 'utf8'))

/** What dpkg has installed; a package URL as https://github.com/package-url/purl-spec has it. */
function debianPackages(): Component[] {
  const release = readFileSync('/etc/os-release', 'utf8')
  const suite = /^VERSION_CODENAME=(.+)$/m.exec(release)?.[1] ?? 'unknown'
  const format = '${Package} ${Version} ${Architecture}\n'
  const lines = execFileSync('dpkg-query', ['--show', `--showformat=${format}`], {
    encoding: 'utf8',
  })
  return lines
    .trimEnd()
    .split('\n')
    .map((line) => {
      const [name = '', version = '', architecture = ''] = line.split(' ')
      const purl = `pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${architecture}&distro=${suite}`
      return { type: 'library', 'bom-ref': purl, name, version, purl, ...debianLicenses(name) }
    })
}

/** The licences that a package's copyright file names, in its machine-readable form (DEP 5) or as files of Debian. */
function debianLicenses(name: string): Pick<Component, 'licenses'> {
  const path = `/usr/share/doc/${name}/copyright`
  if (!existsSync(path)) return {}
  const text = readFileSync(path, 'latin1')
  const fields = [...text.matchAll(/^License:[ \t]*(\S.*)$/gim)]
  const files = [...text.matchAll(/\/usr\/share\/common-licenses\/([\w.+-]*\w)/g)]
  const names = (fields.length > 0 ? fields : files).map((match) => (match[1] ?? '').trim())
  const licenses = [...new Set(names)].toSorted().map((one) => ({ license: { name: one } }))
  return licenses.length > 0 ? { licenses } : {}
}

/** Every folder below `folder` that is a package in a node_modules. */
function* packageFolders(folder: string): Generator<string> {
  const modules = join(folder, 'node_modules')
  if (!existsSync(modules)) return
  for (const entry of readdirSync(modules, { withFileTypes: true })) {
    if (!entry.isDirectory() || entry.name.startsWith('.')) continue
    const names = entry.name.startsWith('@') ? readdirSync(join(modules, entry.name)) : ['']
    for (const name of names) {
      const own = join(modules, entry.name, name)
      if (existsSync(join(own, 'package.json'))) yield own
      yield* packageFolders(own)
    }
  }
}

/** Folder of a package → the hash of its archive, from npm's list of what it has installed below `root`. */
function archiveHashes(root: string): Map<string, string> {
  const list = join(root, 'node_modules', '.package-lock.json')
  if (!existsSync(list)) return new Map()
  const { packages } = readJson(list) as { packages: Record<string, { integrity?: string }> }
  return new Map(
    Object.entries(packages).flatMap(([place, { integrity = '' }]) => {
      const base64 = /^sha512-(\S+)$/.exec(integrity)?.[1]
      if (base64 === undefined) return []
      return [[join(root, place), Buffer.from(base64, 'base64').toString('hex')]]
    }),
  )
}

function npmPackage(folder: string): Component | undefined {
  const { name, version, license } = readJson(join(folder, 'package.json')) as Manifest
  if (typeof name !== 'string' || typeof version !== 'string') return undefined
  const [scope, base] = name.startsWith('@') ? name.split('/') : [undefined, name]
  const purl = `pkg:npm/${scope === undefined ? '' : `${encodeURIComponent(scope)}/`}${base}@${version}`
  return {
    type: 'library',
    'bom-ref': purl,
    ...(scope !== undefined && { group: scope }),
    name: base ?? name,
    version,
    purl,
    ...(typeof license === 'string' && { licenses: [{ license: { name: license } }] }),
  }
}

/** All of them once, with the places where they are. */
function npmPackages(folders: readonly string[]): Component[] {
  const found = new Map<string, { component: Component; places: string[] }>()
  for (const root of folders) {
    const hashes = archiveHashes(root)
    for (const folder of [root, ...packageFolders(root)]) {
      if (!existsSync(join(folder, 'package.json'))) continue
      const component = npmPackage(folder)
      if (component === undefined) continue
      const content = hashes.get(folder)
      if (content !== undefined) component.hashes = [{ alg: 'SHA-512', content }]
      const one = found.get(component.purl) ?? { component, places: [] }
      one.places.push(folder)
      found.set(component.purl, one)
    }
  }
  return [...found.values()].map(({ component, places }) => ({
    ...component,
    properties: places.map((value) => ({ name: 'vedette:path', value })),
  }))
}

function node(): Component {
  const { version } = process
  const purl = `pkg:generic/node@${version.slice(1)}`
  const content = createHash('sha256').update(readFileSync(process.execPath)).digest('hex')
  const hashes: Component['hashes'] = [{ alg: 'SHA-256', content }]
  return {
    type: 'platform',
    'bom-ref': purl,
    name: 'node',
    version: version.slice(1),
    purl,
    hashes,
  }
}

/** The folders of the engines and runtimes that are installed. */
function toolFolders(): string[] {
  const tools = process.env['TOOLS_DIR'] ?? ''
  return ['engines', 'package-managers', 'runtimes'].flatMap((kind) => {
    const folder = join(tools, kind)
    if (tools === '' || !existsSync(folder)) return []
    return readdirSync(folder)
      .filter((name) => existsSync(join(folder, name, 'installed.json')))
      .map((name) => join(folder, name))
  })
}

const program = join(import.meta.dirname, '..')
const { version } = readJson(join(program, 'package.json')) as { version: string }
const global = '/usr/local/lib'
const components = [
  node(),
  ...npmPackages([program, global, ...toolFolders()]).filter(({ name }) => name !== 'vedette'),
  ...debianPackages(),
].toSorted((a, b) => (a.purl < b.purl ? -1 : 1))
/** A UUID (RFC 9562, version 8) that the content decides: another build of the same has the same. */
function serialNumber(content: unknown): string {
  const hash = createHash('sha256').update(JSON.stringify(content)).digest('hex')
  const parts = [
    hash.slice(0, 8),
    hash.slice(8, 12),
    `8${hash.slice(13, 16)}`,
    `8${hash.slice(17, 20)}`,
  ]
  return `urn:uuid:${[...parts, hash.slice(20, 32)].join('-')}`
}

const image = process.argv[2] ?? 'vedette'
const bill = {
  $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
  bomFormat: 'CycloneDX',
  specVersion: '1.6',
  serialNumber: serialNumber([image, version, components]),
  version: 1,
  metadata: {
    component: {
      type: 'container',
      'bom-ref': 'image',
      name: image,
      version,
    },
  },
  components,
}
process.stdout.write(`${JSON.stringify(bill, null, 1)}\n`)
