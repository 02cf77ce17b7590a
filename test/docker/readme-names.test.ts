// Aim: the lines that pages show for images, Compose, kubectl and helm name what exists: files, images, options,
// settings, services, manifests, Secrets and values. What the lines do is tested on images and clusters.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { VARIABLES as AGENT_VARIABLES } from '../../src/agent/config.ts'
import { VARIABLES as PLATFORM_VARIABLES } from '../../src/platform/config.ts'
import { IMAGES } from '../support/container/deployed-agent.ts'
import { tagOf } from '../support/container/images.ts'
import { blocksOf, chapter, codeIn, page, pages } from '../support/pages.ts'

const root = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(root, path), 'utf8')
const manual = page('docker/README.md')

/** Continued lines as one. */
const joined = (text: string) => text.replaceAll('\\\n', ' ')
/** All code of all pages. */
const code = joined([...pages.values()].flatMap(codeIn).join('\n'))
/** What a pattern finds there, each once. */
const named = (pattern: RegExp, text = code) => [
  ...new Set([...text.matchAll(pattern)].map(([all, first]) => first ?? all)),
]

interface ComposeFile {
  services: Record<string, { profiles?: string[] }>
  secrets: Record<string, { file: string }>
}
const compose = parse(read('docker/compose.yaml'), { merge: true }) as ComposeFile

test('files exist, or are made by docker/compose-secrets', () => {
  const made = new Set([
    'docker/secrets',
    'docker/ca.pem',
    ...Object.values(compose.secrets).map(({ file }) => join('docker', file)),
  ])
  const paths = named(/(?<![\w./-])docker\/[\w./-]*\w/g)
  expect(paths.length).toBeGreaterThan(12)
  expect(paths.filter((path) => !existsSync(join(root, path)) && !made.has(path))).toEqual([])
})

describe('docker', () => {
  test('images are those of docker/build', () => {
    const images = named(/\bvedette\/[\w-]+:[\w.-]+/g)
    expect(images.length).toBe(4)
    const known = new Set([...Object.keys(IMAGES), tagOf('agent-migrate')])
    expect(images.filter((image) => !known.has(image))).toEqual([])
  })

  test('options and images of docker/build are in its help', () => {
    const help = read('docker/build')
    const known = new Set(
      help.slice(help.indexOf('Usage:'), help.indexOf('\nUSAGE\n')).match(/[\w-]+/g),
    )
    const lines = named(/docker\/build ([^\n#]*)/g).flatMap((line) => line.match(/[\w-]+/g) ?? [])
    const chapterOnIt = chapter(manual, 'Build without the internet') ?? ''
    const words = [...lines, ...named(/`(--[a-z-]+)/g, chapterOnIt)].filter(
      (one) => !/^(registry|vedette)$/.test(one),
    )
    expect(words.length).toBeGreaterThan(10)
    expect(words.filter((one) => !known.has(one))).toEqual([])
  })

  test('arguments of the build are those of the Dockerfile', () => {
    const [list = ''] = /as build arguments \(([^)]*)/.exec(manual.replaceAll('\n', ' ')) ?? []
    const names = named(/[A-Z]\w+/g, list)
    expect(names).toHaveLength(5)
    expect(names.filter((name) => !read('docker/Dockerfile').includes(`\nARG ${name}=`))).toEqual(
      [],
    )
  })

  test('settings are those of the programs', () => {
    const known = new Set([...AGENT_VARIABLES, ...PLATFORM_VARIABLES].map(({ name }) => name))
    const given = named(/ -e ([A-Z_]+)=/g)
    expect(given.length).toBeGreaterThan(3)
    expect(given.filter((name) => !known.has(name))).toEqual([])
  })
})

describe('Compose', () => {
  const text = chapter(manual, 'Docker Compose') ?? ''
  const [up = ''] = named(/^docker compose .*$/gm, text)

  test('the line starts every service that the page names', () => {
    const profiles = new Set(named(/--profile (\w+)/g, up))
    const services = Object.entries(compose.services).filter(([name]) =>
      text.toLowerCase().includes(name),
    )
    expect(services.length).toBe(5)
    const left = services.filter(([, { profiles: own }]) => own?.some((one) => !profiles.has(one)))
    expect(left.map(([name]) => name)).toEqual([])
  })

  test('profiles and scaled services exist', () => {
    const all = Object.values(compose.services).flatMap((one) => one.profiles ?? [])
    const profiles = new Set(all)
    expect(named(/--profile (\w+)/g).filter((one) => !profiles.has(one))).toEqual([])
    const scaled = named(/--scale (\w+)=/g)
    expect(scaled.filter((one) => !(one in compose.services))).toEqual([])
  })
})

describe('Kubernetes', () => {
  const [block = ''] = blocksOf('sh', chapter(manual, 'Kubernetes') ?? '')
  const lines = joined(block)
  const manifests = named(/^deploy ([\w-]+)$/gm, lines)

  test('what is deployed has a kustomization', () => {
    expect(manifests).toEqual(['platform', 'agent'])
    const others = named(/^- `(agent-\w+)`: /gm, manual)
    expect(others).toHaveLength(3)
    const missing = [...manifests, ...others].filter(
      (one) => !existsSync(join(root, 'docker/kubernetes', one, 'kustomization.yaml')),
    )
    expect(missing).toEqual([])
  })

  test('objects that kubectl is given are in the manifests', () => {
    const platform = read('docker/kubernetes/platform/platform.yaml')
    const objects = named(/\b(?:statefulset|service)\/[\w-]+/g, lines)
    expect(objects).toHaveLength(2)
    for (const object of objects) {
      const [kind = '', name = ''] = object.split('/')
      expect(platform).toMatch(new RegExp(`^kind: ${kind}$[^]*?^  name: ${name}$`, 'im'))
    }
  })

  test('Secrets have the keys that the manifests read', () => {
    const made = [...lines.matchAll(/create secret generic ([\w-]+)(.*)/g)].map(
      ([, name = '', rest = '']) => [name, named(/--from-literal=(\w+)/g, rest).toSorted()],
    )
    const readBy = (paths: string[]) =>
      named(/\/run\/secrets\/vedette\/(\w+)/g, paths.map(read).join('\n')).toSorted()
    const folder = 'docker/kubernetes/platform'
    expect(Object.fromEntries(made)).toEqual({
      'vedette-platform': readBy([`${folder}/platform.yaml`, `${folder}/postgres.yaml`]),
      'vedette-agent': readBy(['docker/kubernetes/agent/deployment.yaml']),
    })
  })
})

test('helm is given values that the chart has', () => {
  const values = parse(read('docker/helm/vedette-agent/values.yaml')) as Record<string, unknown>
  const text = chapter(manual, 'Helm') ?? ''
  const names = [...named(/--set ([\w.]+)=/g), ...named(/`([a-z]\w*(?:\.\w+)?)`/g, text)]
  const own = names.filter((name) => !['vedette-agent', 'values.yaml'].includes(name))
  expect(own.length).toBeGreaterThan(4)
  const at = (path: string) =>
    path
      .split('.')
      .reduce<unknown>((value, key) => (value as Record<string, unknown>)?.[key], values)
  const kubernetes = new Set(['runAsUser', 'runAsGroup', 'fsGroup'])
  expect(own.filter((name) => at(name) === undefined && !kubernetes.has(name))).toEqual([])
})
