// Aim: a second build of the same sources differs in nothing but what the page names, and its bill of materials says
// what can be verified.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { needImages, tagOf } from '../support/container/images.ts'

const run = promisify(execFile)
const root = join(import.meta.dirname, '../..')
const SECOND_PREFIX = 'vedette-second-build/'
/** What Docker itself puts into a container, and what the page names: compiled code, and folders that COPY makes. */
const EXCEPTED =
  /^\/?$|^\/\.dockerenv$|^\/(?:dev|proc|sys)\b|^\/etc(?:\/(?:hosts|hostname|mtab|resolv\.conf))?$|^\/vedette\/(?:src|docker|versions|node_modules\/\.cache\/.*)$/

/** Path → mode, owner, size, time, target of a link, and hash of the bytes. */
async function filesOf(image: string): Promise<Map<string, string>> {
  const script = `cd / && find . -xdev ! -path ./proc ! -path ./sys -printf '%p\\t%y %m %U:%G %s %T@ %l\\n'
find . -xdev -type f -exec sha256sum {} + | sed 's/^\\([0-9a-f]*\\)  \\(.*\\)/\\2\\t\\1/'`
  const isolated = ['run', '--rm', '--network', 'none', '--read-only', '--user', '0']
  const command = [...isolated, '--entrypoint', 'sh', image, '-c', script]
  const { stdout } = await run('docker', command, { maxBuffer: 2 ** 26 })
  const files = new Map<string, string>()
  for (const line of stdout.trimEnd().split('\n')) {
    const [path = '', facts = ''] = line.slice(1).split('\t')
    if (EXCEPTED.test(path)) continue
    files.set(path, `${files.get(path) ?? ''} ${facts}`)
  }
  return files
}

needImages('agent-uptime')

test('a second build has the same files, with the same times', async () => {
  const second = `${SECOND_PREFIX}${tagOf('agent-uptime').replace('vedette/', '')}`
  onTestFinished(async () => {
    await run('docker', ['image', 'rm', '--force', second])
  })
  const options = ['--network', 'host', '--no-cache', '--tag-prefix', SECOND_PREFIX]
  const one = await filesOf(tagOf('agent-uptime'))
  const [epoch = ''] = /(?<= )\d{9,}(?=\.0{10} )/.exec(one.get('/vedette/package.json') ?? '') ?? []
  const env = { ...process.env, SOURCE_DATE_EPOCH: epoch }
  await run(join(root, 'docker/build'), [...options, 'agent-uptime'], { env })
  const other = await filesOf(second)
  expect(one.size).toBeGreaterThan(5000)
  expect([...other.keys()].toSorted()).toEqual([...one.keys()].toSorted())
  expect([...other].filter(([path, facts]) => one.get(path) !== facts)).toEqual([])
})

test('the bill of materials names its image, licences, and hashes of archives', async () => {
  const isolated = ['run', '--rm', '--network', 'none', '--read-only', '--entrypoint', 'sh']
  const script = 'cat /usr/share/vedette/bill-of-materials.cdx.json; command -v npm npx >&2'
  const command = [...isolated, tagOf('agent-uptime'), '-c', `${script}; true`]
  const { stdout, stderr } = await run('docker', command, { maxBuffer: 2 ** 26 })
  expect(stderr).toBe('')
  interface Component {
    purl: string
    hashes?: { alg: string; content: string }[]
    licenses?: unknown[]
  }
  const bill = JSON.parse(stdout) as {
    serialNumber: string
    metadata: { component: { name: string } }
    components: Component[]
  }
  expect(bill.serialNumber).toMatch(/^urn:uuid:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
  expect(bill.metadata.component.name).toBe('agent-uptime')
  const npm = bill.components.filter(({ purl }) => purl.startsWith('pkg:npm/'))
  const hashes = npm.flatMap(({ hashes: own = [] }) => own)
  expect(hashes).toHaveLength(npm.length)
  expect(hashes.every(({ alg, content }) => alg === 'SHA-512' && content.length === 128)).toBe(true)
  const unlicensed = bill.components.filter(({ licenses }) => licenses === undefined)
  expect(unlicensed.length).toBeLessThan(bill.components.length / 50)
})
