// `vedette help <topic>` prints every page of the manual within the width of the terminal.
import { globSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { createManual } from '../../../src/cli/help/manual.ts'
import { plainText } from '../../../src/cli/help/plain-text.ts'
import { DEFINITIONS } from '../../../src/monitors/definitions.ts'

const COLUMNS = 80
const manual = createManual(COLUMNS)
const topics = manual.topics().map(([topic]) => topic)
const root = join(import.meta.dirname, '../../..')

test('every page has a topic of its own and a title, every type of monitor a page', () => {
  const pages = globSync('{src,docker}/**/README.md', { cwd: root })
  expect(topics.length).toBe(pages.length + 1)
  expect(manual.topics().filter(([, title]) => title === '')).toEqual([])
  const types = [...DEFINITIONS.values()].map(({ path }) => path)
  const others = ['monitors', 'agent', 'platform', 'cli', 'docker', 'coming-from']
  expect(topics).toEqual(expect.arrayContaining([...types, ...others]))
  expect(manual.page('import')).toBe(manual.page('coming-from'))
  expect(manual.page('none')).toBeUndefined()
})

test.each([
  ['API', 'api'],
  ['Dns', 'dns'],
  ['MULTI_STEP', 'multistep'],
  ['HEARTBEAT', 'heartbeat'],
  ['PLAYWRIGHT', 'playwright'],
  ['Coming-From', 'coming-from'],
  ['suites', 'playwright'],
  ['metrics', 'agent'],
  ['config', 'agent'],
])('%s is the topic %s', (name, topic) => {
  expect(manual.page(name)).toBe(manual.page(topic) ?? 'a page')
})

test('a link to another page names its topic', () => {
  const page = manual.page('heartbeat')?.replaceAll(/\s+/g, ' ')
  expect(page).toContain('fields of every monitor (vedette help monitors):')
  const linked = (href: string) => ({ 'a/README.md': 'a' })[href]
  const links = '| [one](a/README.md#b) |\n| - |\n\n[two](#b), [three](LICENSE).\n'
  const lines = plainText(links, COLUMNS, linked).trimEnd().split('\n')
  expect([lines[0], lines.at(-1)]).toEqual(['one (vedette help a)', 'two, three.'])
})

describe.each(topics)('the page %s', (topic) => {
  const lines = (manual.page(topic) ?? '').split('\n')

  test('fits the width, but for code and words longer than that', () => {
    const wide = lines.filter((line) => line.length > COLUMNS && !line.startsWith('    '))
    expect(wide.filter((line) => line.split(/\s+/).every((word) => word.length < 30))).toEqual([])
  })

  test('has no marks of Markdown', () => {
    const text = lines.filter((line) => !line.startsWith('    ')).join('\n')
    expect(text).not.toMatch(/^(#+ |\||```)|\]\(|\*\*\w/m)
  })
})

test('a table keeps its columns, and its cells wrap', () => {
  const table = '| a | b |\n| - | - |\n| `x \\| y` | one two three four five six seven |\n'
  expect(
    plainText(table, 30, () => undefined)
      .trimEnd()
      .split('\n'),
  ).toEqual([
    'a        b',
    '-------  ---------------------',
    '`x | y`  one two three four',
    '         five six seven',
  ])
})

test('no column is narrower than its longest word as long as others can wrap', () => {
  const table = '| name | b |\n| - | - |\n| averyveryverylongname | one two three four five |\n'
  const [, separator] = plainText(table, 36, () => undefined).split('\n')
  expect(separator).toBe(`${'-'.repeat(21)}  ${'-'.repeat(13)}`)
})
