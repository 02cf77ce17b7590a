// The README and the manual pages must match the code: their tables of failure codes and variables are those of the code,
// their monitors files are valid, and each page has a readable length.
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { VARIABLES } from '../src/agent/config.ts'
import { readFileToApply, readMonitorsFile } from '../src/agent/monitors-file/file.ts'
import { FAILURES, type FailureTable } from '../src/contract/failure.ts'
import { RUNTIMES } from '../src/contract/runtimes.ts'
import { LIMITS } from '../src/contract/versions.ts'
import { bytesText, durationText } from '../src/contract/schema/amounts.ts'
import { VARIABLES as PLATFORM_VARIABLES } from '../src/platform/config.ts'
import { TLS_METRICS } from '../src/contract/type/metrics.ts'
import { DEFINITIONS } from '../src/monitors/definitions.ts'
import { MONITOR_TYPES } from '../src/monitors/registry.ts'
import { temporaryFile } from './support/temporary-folder.ts'

const root = new URL('..', import.meta.url).pathname
/** Path → text of the README and of every page next to code and tests. */
const pages = new Map(
  ['README.md', 'SECURITY.md', ...globSync('{src,test,docker}/**/README.md', { cwd: root })].map(
    (path) => [path, readFileSync(join(root, path), 'utf8')],
  ),
)
const page = (path: string) => pages.get(path) ?? ''

/** Rows of the first table behind `heading`, cells trimmed. */
function tableUnder(heading: string, text: string): string[][] {
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

test('the README has at most 250 lines, every other page at most 300', () => {
  const tooLong = [...pages].filter(
    ([path, text]) => text.split('\n').length > (path === 'README.md' ? 250 : 300),
  )
  expect(tooLong.map(([path]) => path)).toEqual([])
})

test('the README runs the image as the page about containers does', () => {
  const [command = ''] = /^docker run -d (?:[^\n]*\\\n)*[^\n]*$/m.exec(page('README.md')) ?? []
  expect(command).not.toBe('')
  expect(page('docker/README.md')).toContain(command)
})

test('the shared failure codes are those of the code', () => {
  const text = page('src/monitors/README.md')
  expect(tableUnder('Every failure has a stable `code`', text)).toEqual(codesOf(FAILURES))
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

/** Path of a type's page: the folder of PLAYWRIGHT is `suite`. */
function pageOf(checkType: string): string {
  const definition = globSync('src/monitors/*/definition.ts', { cwd: root }).find((path) =>
    readFileSync(join(root, path), 'utf8').includes(`checkType: '${checkType}'`),
  )
  return join(dirname(definition ?? ''), 'README.md')
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
  const table = tableUnder('## Configuration', page('src/agent/README.md'))
  const rows = table.map(([name, fallback]) => [name, fallback])
  const expected = VARIABLES.map(({ name, default: fallback }) => [`\`${name}\``, fallback])
  expect(rows).toEqual(expected)
})

test('so are those of the platform', () => {
  const table = tableUnder('## Configuration of the platform', page('src/platform/README.md'))
  const rows = table.map(([name, fallback]) => [name, fallback])
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
  const table = tableUnder('What one run may use', page('src/sandbox/README.md'))
  expect(table.map((row) => row.slice(1))).toEqual([
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
      const isPinged = yaml.includes('type: HEARTBEAT')
      const read = isPinged
        ? await readFileToApply(file, env)
        : await readMonitorsFile(file, env, MONITOR_TYPES)
      expect(read).toMatchObject({ ok: true })
    },
  )
})
