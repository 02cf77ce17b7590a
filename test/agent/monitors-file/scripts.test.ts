// Scripts that monitors of a file name by path are read with their imports, and may set variables.
import { mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { readFileToApply, readMonitorsFile } from '../../../src/agent/monitors-file/file.ts'
import { MONITOR_TYPES } from '../../../src/monitors/registry.ts'
import { createFilesFolder } from '../../support/agent/monitors-files.ts'

const { folder, write, load, problems } = createFilesFolder()

const file = (path: string, content: string) => {
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  return write(content, path)
}

const monitor = (lines: string, request = 'url: http://a.test/') =>
  `monitors:\n  - name: A\n    type: API\n    request: { method: GET, ${request} }\n${lines}\n`

describe('a script by its path', () => {
  test('comes with all that it imports, near and far, in any spelling', async () => {
    file('api/setup.ts', `import { a } from './common/a'\nimport axios from 'axios'\nawait a()`)
    file('api/common/a.ts', `export * from "../../shared/b.js"\nimport './missing'`)
    file('shared/b.js', `module.exports = { b: require('./c'), d: import('./d') }`)
    file('shared/c/index.ts', 'export const c = 1')
    file('shared/d.json', '{}')
    file('tear.js', '1')
    const lines = '    setupScriptPath: api/setup.ts\n    tearDownScriptPath: tear.js'
    const { monitors } = await load(monitor(lines))
    const [read] = monitors as Record<string, unknown>[]
    expect(read).toMatchObject({
      localSetupScript: expect.stringContaining('await a()'),
      setupScriptPath: 'api/setup.ts',
      localTearDownScript: '1',
      tearDownScriptPath: 'tear.js',
    })
    const imported = read?.['setupScriptDependencies'] as { path: string }[]
    const paths = ['api/common/a.ts', 'shared/b.js', 'shared/c/index.ts', 'shared/d.json']
    expect(imported.map(({ path }) => path).toSorted((a, b) => (a < b ? -1 : 1))).toEqual(paths)
  })

  test('is read for a platform too, and its files are watched', async () => {
    file('own.js', 'request.headers.X = 1')
    const path = write(monitor('    setupScriptPath: own.js'))
    const applied = await readFileToApply(path, {})
    expect(applied.ok && applied.file.monitors[0]).toMatchObject({
      localSetupScript: 'request.headers.X = 1',
    })
    const run = await readMonitorsFile(path, {}, MONITOR_TYPES)
    expect(run.files).toContain(join(folder, 'own.js'))
  })

  test('names only the path of the script when its text stands next to it', async () => {
    const lines = '    setupScriptPath: nowhere.ts\n    localSetupScript: "1"'
    expect((await load(monitor(lines))).monitors[0]).toMatchObject({ localSetupScript: '1' })
  })
})

test.each([
  ['an empty file', '    setupScriptPath: empty.js', 'empty.js: the file is empty'],
  ['a script that is not there', '    setupScriptPath: nowhere.js', 'nowhere.js'],
  ['a snippet', '    tearDownSnippetId: 7', 'snippets are not supported'],
])('%s is a problem', async (_, lines, expected) => {
  file('empty.js', ' \n')
  const found = await problems(monitor(lines))
  expect(found).toHaveLength(1)
  expect(found[0]).toContain(expected)
})

test('a snippet is refused when a file is applied, too, and in groups', async () => {
  const own = monitor('    setupSnippetId: 7')
  const grouped = `groups: { g: { setupSnippetId: 7 } }\n${monitor('    group: g')}`
  for (const text of [own, grouped]) expect((await readFileToApply(write(text), {})).ok).toBe(false)
})

test.each([
  ['nothing but blanks', 'script: "  "', '13', '"  "'],
  ['nothing but comments', 'script: // one // two', '13', '"// one // two"'],
])('a script of %s is reported with its line and the fix', async (_, line, column, value) => {
  const text = `monitors:\n  - name: A\n    type: BROWSER\n    ${line}\n`
  const found = await problems(text)
  expect((await readFileToApply(write(text), {})).ok).toBe(false)
  expect(found).toHaveLength(1)
  expect(found[0]).toContain(`:4:${column}  monitors[0].script: it contains no code`)
  expect(found[0]).toContain(`(got ${value})`)
})

test('empty set-up and tear-down scripts are none, as the public contract has it', async () => {
  const { monitors } = await load(monitor(`    localSetupScript: ''\n    localTearDownScript: ' '`))
  expect(monitors).toHaveLength(1)
})

describe('an undefined variable', () => {
  const BOTH = `localSetupScript: "process.env.BASE = process.env.STAMP = 'http://a'"`
  const asks = `url: "{{BASE}}/x", headers: [{ key: X, value: "{{STAMP}}" }]`
  test.each([
    ['is a problem without a set-up script', '', 2, 0],
    ['may come from the set-up script that names it', `    ${BOTH}`, 0, 0],
    ['is odd where the script does not', `    localSetupScript: "process.env.BASE = 1"`, 0, 1],
    ['is a problem next to a tear-down script', `    localTearDownScript: "BASE, STAMP"`, 2, 0],
  ])('%s', async (_, lines, wrong, odd) => {
    const text = monitor(lines, asks)
    expect(await problems(text)).toHaveLength(wrong)
    const read = await readMonitorsFile(write(text), {}, MONITOR_TYPES)
    expect(read.ok ? read.file.warnings : []).toHaveLength(odd)
  })

  test('may come from the set-up script of its group', async () => {
    const group = `groups: { g: { ${BOTH} } }`
    const { monitors, warnings } = await load(`${group}\n${monitor('    group: g', asks)}`)
    expect(warnings).toEqual([])
    expect(monitors[0]).toMatchObject({ localSetupScript: expect.stringContaining('STAMP') })
  })
})
