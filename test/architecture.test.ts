// Holds the house rules that no compiler knows: who may import whom, no circles, small files and
// functions, no grab-bag names, and a test for every registered monitor.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { MONITOR_TYPES } from '../src/monitors/registry.ts'

const root = resolve(import.meta.dirname, '..')

/** Folder of src → the folders of src that it may import from, itself always included. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  contract: [],
  host: [],
  examples: [],
  monitors: ['contract'],
  store: ['contract'],
  agent: ['contract', 'monitors', 'host'],
  platform: ['contract', 'store', 'host'],
  // What the command line does with the parts; the platform is loaded only by what needs it.
  commands: ['contract', 'host', 'examples', 'monitors', 'agent', 'platform'],
  // main.ts alone stands in src itself.
  '': ['commands', 'contract', 'host', 'platform'],
}

const BANNED_FILES = /^(utils?|common|helpers?|lib|types|misc|shared|index)$/
const BANNED_NAMES =
  /\bexport\s+(?:abstract\s+|async\s+)*(?:class|function|const|let|interface|type)\s+(\w*(?:Manager|Helper|Util|Processor|Handler)\w*)/g

interface Diagnostic {
  code: string
  filename: string
  message: string
}

interface Import {
  file: string
  target: string
}

function sourcesBelow(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(folder, name))
    .toSorted()
}

function importsOf(file: string, text: string): Import[] {
  const withoutComments = text.replaceAll(/^\s*(\/\/|\/?\*).*$/gm, '')
  const specifiers = withoutComments.matchAll(
    /(?:from\s+|import\s+|import\(\s*|new URL\(\s*)'(\.{1,2}\/[^']+)'/g,
  )
  return [...specifiers].map((match) => ({
    file,
    target: relative(root, resolve(root, dirname(file), match[1] as string)),
  }))
}

/** The folder of src that a file belongs to; '' for src itself, undefined outside src. */
function houseOf(file: string): string | undefined {
  const parts = file.split('/')
  if (parts[0] !== 'src') return undefined
  return parts.length === 2 ? '' : parts[1]
}

/** Imports that the table forbids, as readable lines. */
function forbidden(imports: readonly Import[]): string[] {
  return imports
    .filter(({ file, target }) => {
      const [from, to] = [houseOf(file), houseOf(target)]
      if (from === undefined || to === undefined || !target.endsWith('.ts')) return false
      if (to === '') return true
      return from !== to && !(MAY_IMPORT[from] ?? []).includes(to)
    })
    .map(({ file, target }) => `${file} imports ${target}`)
}

/** One circle of imports as a list of files, or undefined. */
function circle(imports: readonly Import[]): string[] | undefined {
  const edges = Map.groupBy(imports, (one) => one.file)
  const done = new Set<string>()
  const visit = (file: string, path: string[]): string[] | undefined => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file]
    if (done.has(file)) return undefined
    for (const { target } of edges.get(file) ?? []) {
      const found = visit(target, [...path, file])
      if (found !== undefined) return found
    }
    done.add(file)
    return undefined
  }
  for (const file of edges.keys()) {
    const found = visit(file, [])
    if (found !== undefined) return found
  }
  return undefined
}

const sources = sourcesBelow('src').map((file) => ({
  file,
  text: readFileSync(join(root, file), 'utf8'),
}))
const imports = sources.flatMap(({ file, text }) => importsOf(file, text))

describe('imports', () => {
  test('follow the table', () => {
    expect(imports.length).toBeGreaterThan(20)
    expect(forbidden(imports)).toEqual([])
  })

  test('every folder of src stands in the table', () => {
    const folders = new Set(sources.map(({ file }) => houseOf(file)))
    expect([...folders].filter((folder) => !((folder ?? '') in MAY_IMPORT))).toEqual([])
  })

  test('make no circle', () => {
    expect(circle(imports)).toBeUndefined()
  })

  test('a monitor never imports a monitor', () => {
    const monitors = new Set(
      [...MONITOR_TYPES.keys()].map((type) => `src/monitors/${fileName(type)}.ts`),
    )
    const between = imports.filter(({ file, target }) => monitors.has(file) && monitors.has(target))
    expect(between).toEqual([])
  })

  test('the rules notice what breaks them', () => {
    const bad = importsOf('src/contract/a.ts', `import { x } from '../agent/b.ts'`)
    const worse = importsOf('src/agent/b.ts', `import type { y } from '../contract/a.ts'`)
    expect(forbidden(bad)).toEqual(['src/contract/a.ts imports src/agent/b.ts'])
    expect(forbidden(importsOf('src/agent/b.ts', `await import('../main.ts')`))).toHaveLength(1)
    expect(circle([...bad, ...worse])).toEqual([
      'src/contract/a.ts',
      'src/agent/b.ts',
      'src/contract/a.ts',
    ])
  })
})

describe('names', () => {
  test('no file or folder is a grab bag', () => {
    const parts = [...sources.map(({ file }) => file), ...sourcesBelow('test')].flatMap((file) =>
      file.replace(/(\.test)?\.ts$/, '').split('/'),
    )
    expect(parts.filter((part) => BANNED_FILES.test(part))).toEqual([])
  })

  test('files are kebab-case', () => {
    const names = sources.map(({ file }) => file.split('/').at(-1) ?? '')
    expect(names.filter((name) => !/^[a-z0-9]+(-[a-z0-9]+)*\.ts$/.test(name))).toEqual([])
  })

  test('nothing exported is a Manager, Helper, Util, Processor or Handler', () => {
    const banned = sources.flatMap(({ file, text }) =>
      [...text.matchAll(BANNED_NAMES)].map((match) => `${file}: ${match[1]}`),
    )
    expect(banned).toEqual([])
  })
})

describe('size', () => {
  /** What the linter says about sizes, with the bounds of its configuration. */
  function oversized(...args: string[]): string[] {
    const oxlint = join(root, 'node_modules/.bin/oxlint')
    const { stdout } = spawnSync(oxlint, ['-f', 'json', ...args], { cwd: root, encoding: 'utf8' })
    const { diagnostics } = JSON.parse(stdout) as { diagnostics: Diagnostic[] }
    return diagnostics
      .filter(({ code }) => /max-lines/.test(code))
      .map(({ filename, message }) => `${filename}: ${message}`)
  }

  test('no file over 400 lines, no function over 70', () => {
    expect(oversized('src', 'test')).toEqual([])
  })

  test('the linter does measure', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'vedette-size-'))
    const lines = (count: number) => 'console.log(1)\n'.repeat(count)
    await writeFile(join(folder, 'long.ts'), `export function f() {\n${lines(70)}}\n${lines(400)}`)
    const config = join(root, '.oxlintrc.json')
    expect(oversized('-c', config, folder)).toHaveLength(2)
    await rm(folder, { recursive: true })
  })
})

describe('comments', () => {
  test('every file says at its head what it is', () => {
    const silent = [...sources.map(({ file }) => file), ...sourcesBelow('test')].filter((file) => {
      const text = readFileSync(join(root, file), 'utf8').replace(/^#!.*\n/, '')
      return !/^(\/\/ |\/\*\*)/.test(text)
    })
    expect(silent).toEqual([])
  })

  test('nothing is left undone', () => {
    const marks = /\b(TODO|FIXME|XXX|HACK)\b/ // the words themselves
    const files = sources.filter(({ text }) => marks.test(text)).map(({ file }) => file)
    expect(files).toEqual([])
  })
})

describe('monitors', () => {
  test.each([...MONITOR_TYPES.keys()])('%s has its file and its test', (type) => {
    const name = fileName(type)
    expect(existsSync(join(root, `src/monitors/${name}.ts`))).toBe(true)
    const tests = readdirSync(join(root, 'test/monitors')).filter(
      (file) => file === `${name}.test.ts` || file.startsWith(`${name}-`),
    )
    expect(tests).not.toEqual([])
  })
})

/** The file of a type of monitor: its checkType in kebab case. */
function fileName(checkType: string): string {
  // A suite is called so everywhere but on the wire.
  if (checkType === 'PLAYWRIGHT') return 'suite'
  return checkType.toLowerCase().replaceAll('_', '')
}
