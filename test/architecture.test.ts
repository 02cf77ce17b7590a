// Checks the house rules that no compiler knows: allowed imports, no circles, small files and functions, no grab-bag
// names, and a test for every registered monitor.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { MONITOR_TYPES } from '../src/monitors/registry.ts'
import { MAY_IMPORT } from './import-table.ts'
import { temporaryFile } from './support/temporary-folder.ts'

const root = resolve(import.meta.dirname, '..')

const BANNED_FILES = /^(utils?|common|helpers?|lib|types|misc|shared)$/
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

/** The part of a path below src that the pattern matches; undefined where it does not match. */
function matchedPart(pattern: string, path: string): string | undefined {
  const [wanted, parts] = [pattern.split('/'), path.split('/')]
  const fits = wanted.every(
    (one, at) => one === parts[at] || (one === '*' && at < parts.length - 1),
  )
  return fits ? parts.slice(0, wanted.length).join('/') : undefined
}

/** Imports that the table forbids, as readable lines. */
function forbidden(imports: readonly Import[]): string[] {
  const below = (path: string) => (path.startsWith('src/') ? path.slice('src/'.length) : undefined)
  return imports
    .filter(({ file, target }) => {
      const [from, to] = [below(file), below(target)]
      if (from === undefined || to === undefined || !target.endsWith('.ts')) return false
      const entry = Object.keys(MAY_IMPORT).findLast(
        (place) => matchedPart(place, from) !== undefined,
      )
      const allowed = [
        matchedPart(entry ?? '', from) ?? '',
        ...(MAY_IMPORT[entry ?? ''] ?? '').split(' '),
      ]
      return !allowed.some((place) => matchedPart(place, to) !== undefined)
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

  test('the table covers every file of src', () => {
    const places = Object.keys(MAY_IMPORT)
    const files = sources.map(({ file }) => file.slice('src/'.length))
    expect(files.filter((file) => !places.some((place) => matchedPart(place, file)))).toEqual([])
  })

  test('make no circle', () => {
    expect(circle(imports)).toBeUndefined()
  })

  test('violations are found', () => {
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

describe('folders', () => {
  const files = [...sources.map(({ file }) => file), ...sourcesBelow('test')]
  /** Folders of test that mirror none of src. */
  const ELSEWHERE = /^test\/(support|faults|container|bench|docker|fixtures)\b/

  test('have at most 20 files', () => {
    const folders = Map.groupBy(files, (file) => dirname(file))
    expect([...folders].filter(([, entries]) => entries.length > 20)).toEqual([])
  })

  test('of test mirror those of src', () => {
    const folders = new Set(files.map((file) => dirname(file)))
    const strange = [...folders].filter(
      (folder) =>
        folder.startsWith('test/') &&
        !ELSEWHERE.test(folder) &&
        !folders.has(folder.replace('test', 'src')),
    )
    expect(strange).toEqual([])
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
  /** Findings of the linter about sizes, with the bounds of its configuration. */
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

  test('the linter does measure', () => {
    const lines = (count: number) => 'console.log(1)\n'.repeat(count)
    const long = temporaryFile('long.ts', `export function f() {\n${lines(70)}}\n${lines(400)}`)
    const config = join(root, '.oxlintrc.json')
    expect(oversized('-c', config, dirname(long))).toHaveLength(2)
  })
})

describe('comments', () => {
  test('every file has a header comment', () => {
    const withoutHeader = [...sources.map(({ file }) => file), ...sourcesBelow('test')].filter(
      (file) => {
        const text = readFileSync(join(root, file), 'utf8').replace(/^#!.*\n/, '')
        return !/^(\/\/ |\/\*\*)/.test(text)
      },
    )
    expect(withoutHeader).toEqual([])
  })

  test('none marks unfinished work', () => {
    const marks = /\b(TODO|FIXME|XXX|HACK)\b/ // the marks themselves
    const files = sources.filter(({ text }) => marks.test(text)).map(({ file }) => file)
    expect(files).toEqual([])
  })
})

describe('children', () => {
  test('do not inherit the environment, which holds keys', () => {
    const calls = sources.flatMap(({ file, text }) =>
      [...text.matchAll(/\n( *)[^\n]*[ (]spawn(?:Sync)?\((?:.*\n)+?(?:\1\S|\n)/g)].map(
        ({ 0: call, index }) => ({ file, around: text.slice(0, index).slice(-200) + call }),
      ),
    )
    expect(calls.length).toBeGreaterThan(5)
    expect(calls.filter(({ around }) => !/\benv\b/.test(around)).map(({ file }) => file)).toEqual(
      [],
    )
  })
})

describe('monitors', () => {
  test.each([...MONITOR_TYPES.keys()])('%s has its folder and its tests', (type) => {
    const folder = folderName(type)
    expect(existsSync(join(root, `src/monitors/${folder}/index.ts`))).toBe(true)
    expect(sourcesBelow(`test/monitors/${folder}`)).not.toEqual([])
  })
})

/** The folder of a type of monitor: its checkType in kebab case. */
function folderName(checkType: string): string {
  // A suite has this name everywhere except on the wire.
  if (checkType === 'PLAYWRIGHT') return 'suite'
  return checkType.toLowerCase().replaceAll('_', '')
}
