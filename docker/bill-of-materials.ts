// Writes the bill of materials of the image that it runs in, as CycloneDX 1.6 (https://cyclonedx.org): every
// Debian package, every npm package of the program, the engines and the runtimes, and Node.js itself. It lists
// the packages on the disk, not those that a manifest requests.
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

interface Component {
  type: 'library' | 'platform' | 'application'
  'bom-ref': string
  name: string
  group?: string
  version: string
  purl: string
  licenses?: { license: { name: string } }[] | { expression: string }[]
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
      return { type: 'library', 'bom-ref': purl, name, version, purl }
    })
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
    for (const folder of [root, ...packageFolders(root)]) {
      if (!existsSync(join(folder, 'package.json'))) continue
      const component = npmPackage(folder)
      if (component === undefined) continue
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
  return { type: 'platform', 'bom-ref': purl, name: 'node', version: version.slice(1), purl }
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
const bill = {
  $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
  bomFormat: 'CycloneDX',
  specVersion: '1.6',
  version: 1,
  metadata: {
    component: {
      type: 'container',
      'bom-ref': 'image',
      name: process.argv[2] ?? 'vedette',
      version,
    },
  },
  components,
}
process.stdout.write(`${JSON.stringify(bill, null, 1)}\n`)
