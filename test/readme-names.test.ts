// Aim: every name on the manual pages exists: what is written as code is a word of the code, files are there and have
// what a page says is in them, and addresses are served.
import { existsSync, globSync, readFileSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { createHealth } from '../src/agent/health.ts'
import { createPingApp } from '../src/platform/heartbeats/pings.ts'
import { createMetricsApp, createProbes } from '../src/platform/http/probes.ts'
import { blocksOf, chapter, page, pages, tablesIn } from './support/pages.ts'
import { describedApi } from './support/platform/described-api.ts'

const root = new URL('..', import.meta.url).pathname
const read = (path: string) => readFileSync(join(root, path), 'utf8')

/** Code spans of all pages. */
const spans = [...pages].flatMap(([path, text]) =>
  [...text.replaceAll(/^```[\s\S]*?^```$/gm, '').matchAll(/`([^`\n]+)`/g)].map(([, span = '']) => ({
    path,
    span,
  })),
)
/** Those that a rule refuses, with their pages. */
const spansThat = (isBad: (span: string, path: string) => boolean) =>
  spans.filter(({ path, span }) => isBad(span, path)).map(({ path, span }) => `${path}: ${span}`)

const COMMENT = /^\s*(?:\/\/|\/?\*).*$/gm
const WORD = /[A-Za-z][A-Za-z0-9_]*/g

/** Words of files and of their names, without those of comments and pages. */
function wordsIn(pattern: string[]): Set<string> {
  const files = globSync(pattern, { cwd: root, exclude: ['**/*.md'] })
    .filter((file) => statSync(join(root, file)).isFile())
    .map((file) => `${file}\n${read(file).replaceAll(COMMENT, '')}`)
  return new Set(files.join('\n').match(WORD))
}

/** Words of other programs, and of examples. */
const OTHERS = new Set(
  `EBADENGINE pids rollout cosign attest tx2 dig mdev no_new_privs accent DEPENDENCY_CACHE API_TOKEN ADMIN_KEY
  CHECKLY_ENV   CHECKLY_API_KEY CHECKLY_API_URL CHECKLY_ACCOUNT_ID ERR_NETWORK_ACCESS_DENIED`.split(
    /\s+/,
  ),
)

test('words in code are those of the code', () => {
  const ofProduct = wordsIn(['src/**', 'docker/**', 'versions/*', 'package.json'])
  const all = new Set([...ofProduct, ...wordsIn(['test/**'])])
  expect(spans.length).toBeGreaterThan(3000)
  const isKnown = (word: string, path: string) => {
    // A name that is cut off.
    if (word.endsWith('_')) return [...all].some((one) => one.startsWith(word.slice(0, -1)))
    // Tests also have misspelled variables.
    const isSetting = /^[A-Z]+_[A-Z_]+$/.test(word) && !path.startsWith('test/')
    const known = isSetting ? ofProduct : all
    // Code has metrics without their prefix, and variables without `_FILE`.
    return (
      OTHERS.has(word) || known.has(word) || known.has(word.replaceAll(/^vedette_|_FILE$/g, ''))
    )
  }
  const unknown = spansThat((span, path) =>
    (span.match(WORD) ?? []).some((word) => !isKnown(word, path)),
  )
  expect(unknown).toEqual([])
})

test('options of other tools are those that the import reads', () => {
  const code = globSync('src/cli/import/*.ts', { cwd: root }).map(read).join('\n')
  const options = tablesIn(page('src/cli/import/README.md'))
    .filter(({ head: [first = ''] }) => ['prober', 'option', 'scheme', 'type'].includes(first))
    .flatMap(({ rows }) => rows)
    // What it refuses may be all that it does not know.
    .filter(([, here]) => here !== 'refused')
    .flatMap(([there = '']) => there.match(/(?<=`)[\w-]+(?=:?`)/g) ?? [])
  expect(options.length).toBeGreaterThan(60)
  const isRead = (option: string) => new RegExp(`(?<![\\w-])${option}(?![\\w-])`).test(code)
  expect(options.filter((option) => !isRead(option))).toEqual([])
})

describe('files', () => {
  const all = globSync('{src,test,docker,versions}/**', { cwd: root })
  const names = new Set(all.map((path) => basename(path)))

  test('that a page names exist', () => {
    const isMissing = (span: string) => {
      if (/^(?:src|test|versions)\/[\w<>*./-]*$/.test(span)) {
        return globSync(span.replaceAll(/<\w+>/g, '*'), { cwd: root }).length === 0
      }
      return /^[\w-]+\.ts$/.test(span) && !names.has(span)
    }
    expect(spansThat(isMissing)).toEqual([])
  })

  test('have what a page says is in them', () => {
    const said = [...pages.values()].flatMap((text) => [
      ...text.matchAll(/`([#\w]+)` in `([\w/.-]+\.ts)`/g),
    ])
    expect(said.length).toBeGreaterThan(1)
    const wrong = said.filter(([, name = '', path = '']) => !read(path).includes(name))
    expect(wrong.map(([line]) => line)).toEqual([])
  })

  test('of the map exist', () => {
    const [map = ''] = blocksOf('', chapter(page('README.md'), 'The map') ?? '')
    const lines = map.trimEnd().split('\n')
    expect(lines.length).toBeGreaterThan(15)
    const missing = lines.flatMap((line) => {
      const [, indent = '', first = '', about = ''] = /^( *)(\S+) *(.*)$/.exec(line) ?? []
      const folder = join(indent === '' ? '' : 'src', first)
      const below = about.match(/[\w-]+\/(?!\w)/g) ?? []
      return [folder, ...below.map((one) => join(folder, one))]
    })
    expect(missing.filter((path) => !existsSync(join(root, path)))).toEqual([])
  })
})

test('addresses are served', () => {
  const none = {} as never
  const apps = [
    createHealth(none),
    createProbes(none),
    createMetricsApp(none),
    createPingApp(none, none),
  ]
  const routes = [describedApi(), ...apps].flatMap((app) =>
    app.routes.map(({ path }) => path.split('/')),
  )
  const tops = new Set(routes.map(([, top]) => top))
  const addresses = spans.flatMap(({ path, span }) => {
    const [, address = ''] = /^(?:[A-Z]+ )?(\/[^?\s]+)/.exec(span) ?? []
    const parts = address.replace(/\/$/, '').split('/')
    return tops.has(parts[1]) ? [{ path, span, parts }] : []
  })
  expect(addresses.length).toBeGreaterThan(80)
  // A page may name the beginning of addresses, and writes parameters as `{id}`, `<token>` or a value.
  const isServed = (parts: string[]) =>
    routes.some((route) =>
      parts.every((part, index) => {
        const [, pattern] = /^:\w+(?:\{(.*)\})?\??$/.exec(route[index] ?? '') ?? [undefined, '(?!)']
        const isValue = new RegExp(`^(?:${pattern ?? '.*'})$`).test(part)
        return part === route[index] || isValue || (/^[{<]/.test(part) && route.length > index)
      }),
    )
  const unknown = addresses.filter(({ parts }) => !isServed(parts))
  expect(unknown.map(({ path, span }) => `${path}: ${span}`)).toEqual([])
})
