// The engine of a suite: of the monitor, then of the project's own files, Node before Bun.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { lowestOf, suiteEngine } from '../../src/suites/engine.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

function project(files: Record<string, string>): string {
  const folder = temporaryFolder()
  mkdirSync(join(folder, 'e2e'))
  for (const [path, text] of Object.entries(files)) writeFileSync(join(folder, path), text)
  return folder
}

const manifest = (engines: object) => ({ 'package.json': JSON.stringify({ engines }) })

const TOOLS = { '.tool-versions': 'ruby 3.3\nnodejs 26.1.0\n' }

test.each<[string, Record<string, string>, engine: string, from: string]>([
  ['nothing', {}, 'node@22', 'default'],
  ['.node-version', { '.node-version': 'v24.1.0\n' }, 'node@24', '.node-version'],
  ['.nvmrc with a comment', { '.nvmrc': '# ours\n26\n' }, 'node@26', '.nvmrc'],
  ['a range', { '.nvmrc': 'lts/jod', ...manifest({ node: '>=24' }) }, 'node@24', 'package.json'],
  ['.tool-versions', TOOLS, 'node@26', '.tool-versions'],
  ['a file first', { '.nvmrc': '22', ...manifest({ node: '26' }) }, 'node@22', '.nvmrc'],
  ['.bun-version', { '.bun-version': '1.3.2' }, 'bun@1.3', '.bun-version'],
  ['Bun in package.json', manifest({ bun: '^1.2' }), 'bun@1.3', 'package.json'],
  ['both', { '.bun-version': '1.3', ...manifest({ node: '24' }) }, 'node@24', 'package.json'],
  ['the working folder first', { '.nvmrc': '22', 'e2e/.nvmrc': '24' }, 'node@24', '.nvmrc'],
  ['a bad package.json', { 'package.json': '{' }, 'node@22', 'default'],
])('a project asks for an engine by %s', async (_, files, engine, from) => {
  const folder = project(files)
  expect(await suiteEngine({}, [join(folder, 'e2e'), folder])).toMatchObject({ engine, from })
})

test('an engine of the monitor wins, and takes its version from the project when it has none', async () => {
  const folder = project({ '.bun-version': '1.2', '.nvmrc': '22' })
  const options = { engine: 'node', engineVersion: '26' } as const
  expect(await suiteEngine(options, [folder])).toMatchObject({ engine: 'node@26' })
  const notice = expect.stringContaining('1.2')
  expect(await suiteEngine({ engine: 'bun' }, [folder])).toMatchObject({
    engine: 'bun@1.3',
    notice,
  })
})

test('an engine of the monitor is refused when there is none like it, with who asked for it', async () => {
  const folder = project({ '.bun-version': '2.0' })
  expect(await suiteEngine({ engine: 'bun' }, [folder])).toMatch(/^\.bun-version: .*Bun 2/)
})

test.each([
  ['>=20.1 <23', '20.1'],
  ['^22', '22.0'],
  ['~24.3.1', '24.3'],
  ['22.x || 24.x', '22.0'],
  ['>22', '23.0'],
  ['>22.4', '22.4'],
  ['18 - 22', '18.0'],
  ['>= 24', '24.0'],
  ['<23', undefined],
  ['*', undefined],
  ['22 || *', undefined],
])('the lowest version of %j is %j', (range, lowest) => {
  expect(lowestOf(range)).toBe(lowest)
})
