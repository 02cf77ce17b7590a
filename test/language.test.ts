// Aim: the terms that the glossary replaced do not come back: not in code, in tests, or on any page.
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const root = new URL('..', import.meta.url).pathname

/** Term → the lines that may still have it: public names that last one version, and what is stored. */
const REPLACED: Record<string, RegExp | undefined> = {
  cage: /CAGE_FAILED|'cage'|`cage`|cage: layers/,
  caged: undefined,
  warden: undefined,
  mend: /formerId|`mend`/,
  mends: undefined,
  mended: undefined,
  chore: undefined,
  chores: /(update|into|from) chores\b/,
  seal: /'seal'|'SEAL'/,
  sealed: /'vedette sealed columns'/,
  toolbox: undefined,
  deed: undefined,
  deeds: undefined,
  heirs: undefined,
  untold: undefined,
  strays: undefined,
  strangers: undefined,
  survivors: undefined,
  wary: undefined,
  warily: undefined,
  unheld: undefined,
  surroundings: undefined,
  whoever: undefined,
  wish: undefined,
  wishes: undefined,
  admission: undefined,
  telling: undefined,
}
/** The last two: messages about a value that say what it is not. */
const PHRASES =
  /people’s code|people's code|way out to the network|belongs into|[`'](?:is|are) no (?!longer)[a-z]/i

const files = globSync(['src/**', 'test/**', 'docker/**', '*.md'], {
  cwd: root,
  withFileTypes: true,
  exclude: (one) => ['node_modules', 'fixtures', 'migrations'].includes(one.name),
})
  .filter((one) => one.isFile() && one.name !== 'language.test.ts')
  .map((one) => join(one.parentPath, one.name))

test('no term that the glossary replaced stands anywhere', () => {
  const found = files.flatMap((path) =>
    readFileSync(path, 'utf8')
      .split('\n')
      .flatMap((line, index) => {
        const terms = line.match(/[A-Z]?[a-z]+|[A-Z]+(?![a-z])/g) ?? []
        const isOld = terms.some((term) => {
          const old = term.toLowerCase()
          return Object.hasOwn(REPLACED, old) && REPLACED[old]?.test(line) !== true
        })
        return isOld || PHRASES.test(line)
          ? [`${path.slice(root.length)}:${index + 1}: ${line}`]
          : []
      }),
  )
  expect(files.length).toBeGreaterThan(1000)
  expect(found).toEqual([])
})
