// The README must match the code: its tables of failure codes and variables are those of the code, its monitors files
// are valid, and the commands that it names exist.
import { existsSync, globSync, readFileSync, realpathSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { describe, expect, test } from 'vitest'
import { VARIABLES } from '../src/agent/config.ts'
import { readMonitorsFile } from '../src/agent/monitors-file/file.ts'
import { FAILURES, type FailureTable } from '../src/contract/failure.ts'
import { RUNTIMES } from '../src/contract/runtimes.ts'
import { LIMITS } from '../src/contract/versions.ts'
import { bytesText, durationText } from '../src/contract/schema/amounts.ts'
import { VARIABLES as PLATFORM_VARIABLES } from '../src/platform/config.ts'
import { postgresFolder } from '../src/database/embedded/folder.ts'
import { TLS_METRICS } from '../src/contract/type/metrics.ts'
import { DEFINITIONS } from '../src/monitors/definitions.ts'
import { MONITOR_TYPES } from '../src/monitors/registry.ts'
import { temporaryFile, temporaryFolder } from './support/temporary-folder.ts'

const root = new URL('..', import.meta.url).pathname
/** Path → text of the README and of every page next to code and tests. */
const pages = new Map(
  ['README.md', 'test/README.md', ...globSync('src/**/README.md', { cwd: root })].map((path) => [
    path,
    readFileSync(join(root, path), 'utf8'),
  ]),
)
const page = (path: string) => pages.get(path) ?? ''
const readme = page('README.md')

/** Rows of the first table behind `heading`, cells trimmed. */
function tableUnder(heading: string, text = readme): string[][] {
  const from = text.indexOf(heading)
  expect(from, `the page has ${heading}`).toBeGreaterThan(-1)
  const table = /(?:^\|.*\|\n)+/m.exec(text.slice(from))?.[0] ?? ''
  return table
    .trimEnd()
    .split('\n')
    .slice(2)
    .map((line) =>
      line
        .slice(1, -1)
        .split(' | ')
        .map((cell) => cell.trim()),
    )
}

const codesOf = (table: FailureTable) =>
  Object.entries(table).map(([code, { about, meaning }]) => [`\`${code}\``, about, meaning])

test('the shared failure codes are those of the code', () => {
  expect(tableUnder('Every failure has a stable `code`')).toEqual(codesOf(FAILURES))
})

describe.each([...DEFINITIONS.values()])('the page of $checkType monitors', (definition) => {
  const { checkType, failures, metrics } = definition
  const text = page(pageOf(checkType))

  test('has the failure codes of the type', () => {
    const rows = failures === undefined ? [] : tableUnder('## Failure codes', text)
    expect(rows).toEqual(codesOf(failures ?? {}))
  })

  test('or the one that it refers to names each metric', () => {
    const known = [text, ...pagesNamedIn(text)].join('\n')
    const names = Object.keys(metrics).filter((name) => !Object.hasOwn(TLS_METRICS, name))
    expect(names.filter((name) => !known.includes(name))).toEqual([])
  })
})

/** Folder of a type, by the name of its registered path: `suite` is PLAYWRIGHT. */
function pageOf(checkType: string): string {
  const folder = [...pages.keys()].find(
    (path) =>
      path.startsWith('src/monitors/') &&
      readFileSync(join(root, path, '../definition.ts'), 'utf8').includes(
        `checkType: '${checkType}'`,
      ),
  )
  return folder ?? ''
}

/** Texts of other types' pages that a page links to. */
function pagesNamedIn(text: string): string[] {
  return [...text.matchAll(/\]\(\.\.\/(\w+)\/README\.md/g)].map(([, type]) =>
    page(`src/monitors/${type}/README.md`),
  )
}

test('every link between pages leads to a page and a heading that exist', () => {
  const dead = [...pages].flatMap(([path, text]) =>
    [...text.matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([\w-]+))?\)/g)].flatMap(
      ([, to = '', anchor]) => {
        const target = to === '' ? path : join(dirname(path), to)
        const isThere = existsSync(join(root, target))
        const hasHeading = anchor === undefined || headingsOf(page(target)).includes(anchor)
        return isThere && hasHeading ? [] : [`${path}: ${to}#${anchor}`]
      },
    ),
  )
  expect(dead).toEqual([])
})

/** Anchors of headings as GitHub makes them. */
function headingsOf(text: string): string[] {
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )
}

test('the variables and their defaults are those of the code', () => {
  const rows = tableUnder('## Configuration').map(([name, fallback]) => [name, fallback])
  const expected = VARIABLES.map(({ name, default: fallback }) => [`\`${name}\``, fallback])
  expect(rows).toEqual(expected)
})

test('so are those of the platform', () => {
  const rows = tableUnder('### Configuration of the platform').map(([name, fallback]) => [
    name,
    fallback,
  ])
  const expected = PLATFORM_VARIABLES.map(({ name, default: unset }) => [`\`${name}\``, unset])
  expect(rows).toEqual(expected)
})

test('it says where a runtime has another Node.js on ARM64', () => {
  const plain = [...pages.values()].join('\n').replaceAll(/\s+/g, ' ')
  for (const { id, node, nodePackages } of RUNTIMES.values()) {
    const [x64, arm64] = [nodePackages.x64, nodePackages.arm64].map((one) => one.split('@').at(-1))
    expect(x64).toBe(node)
    expect(arm64 === node || plain.includes(`${id}: ${arm64} for ${node}`)).toBe(true)
  }
})

test('what a run of code may use is what the limits say', () => {
  const shared = (kind: 'script' | 'suite', memoryBytes: number) => [
    bytesText(memoryBytes),
    bytesText(LIMITS[`${kind}DiskBytesMax`]),
    bytesText(LIMITS[`${kind}OutputBytesMax`]),
    String(LIMITS[`${kind}ProcessesMax`]),
  ]
  const { scriptMsMax, apiScriptMsMax, suiteInstallMsMax, suiteMsMax, suiteCpuMsMax } = LIMITS
  const { scriptMemoryBytesMax, apiScriptMemoryBytesMax, suiteMemoryBytesMax } = LIMITS
  const suite = [durationText(suiteCpuMsMax), ...shared('suite', suiteMemoryBytesMax)]
  expect(tableUnder('What one run may use').map((row) => row.slice(1))).toEqual([
    [
      durationText(scriptMsMax),
      durationText(2 * scriptMsMax),
      ...shared('script', scriptMemoryBytesMax),
    ],
    [
      `${durationText(apiScriptMsMax)} for each`,
      `${durationText(4 * apiScriptMsMax)} for both`,
      ...shared('script', apiScriptMemoryBytesMax),
    ],
    [durationText(suiteInstallMsMax), ...suite],
    [durationText(suiteMsMax), ...suite],
  ])
})

describe('monitors files', () => {
  const blocks = [...pages.values()]
    .flatMap((text) => [...text.matchAll(/^```yaml\n([\s\S]*?)^```$/gm)])
    .map((match) => match[1] ?? '')
    .filter((yaml) => /^monitors:$/m.test(yaml))

  test('there are some', () => expect(blocks.length).toBeGreaterThan(1))

  test.each(blocks.map((yaml, index) => [index + 1, yaml]))(
    'number %i is valid',
    async (_, yaml) => {
      const file = temporaryFile('monitors.yaml', yaml)
      const env = { API_TOKEN: 'secret-token', PROXY_PASSWORD: 'secret-password' }
      const read = await readMonitorsFile(file, env, MONITOR_TYPES)
      expect(read).toMatchObject({ ok: true })
    },
  )
})

test('the backup of the embedded database asks where its socket is', () => {
  const folder = temporaryFolder()
  const socketFolder = relative(realpathSync(folder), postgresFolder(folder).run)
  expect(readme).toContain(`pg_dump -h "$PWD/data/${socketFolder}" `)
})
