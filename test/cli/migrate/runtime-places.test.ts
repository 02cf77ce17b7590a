// The runtime of a monitor is changed where it is written or inherited, with every other byte unchanged.
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { findRuntimes, withRuntimes } from '../../../src/cli/migrate/runtime-places.ts'

const MOVE = { from: '2024.09', to: '2026.04' }

const G = 'groups: { g: { runtimeId: "2024.09" } }\n'
const BASE = 'y: &b { runtimeId: "2024.09" }\n'

/** Changes the runtime of the first monitor of the file. */
function changed(text: string): string | undefined {
  const found = findRuntimes(text)(0)
  return found === undefined ? text : withRuntimes(text, [found], MOVE)
}

test.each([
  ['in double quotes', 'monitors:\n  - name: A\n    runtimeId: "2024.09" # old\n'],
  ['in single quotes', "monitors:\n  - name: A\n    runtimeId:   '2024.09'\n    tags: [ a,b ]\n"],
  ['as a text by its tag', 'monitors:\n  - runtimeId: !!str 2024.09\n'],
  ['in a mapping of one line', 'monitors: [{name: A, "runtimeId" : "2024.09" , tags: []}]'],
  ['over several lines', 'monitors:\n  - runtimeId: >-\n      2024.09\n    name: A\n'],
  ['in a file with Windows line ends', '# a\r\nmonitors:\r\n  - runtimeId: "2024.09"\r\n'],
  ['in a list without a key', '- name: A\n  runtimeId: "2024.09"\n'],
  ['behind other characters', 'monitors:\n  - { name: "Ä 🚀 é", runtimeId: "2024.09" }\n'],
  ['in the defaults', 'defaults: { runtimeId: "2024.09" }\nmonitors:\n  - name: A\n'],
  ['in its group', 'groups:\n  g: { runtimeId: "2024.09" }\nmonitors:\n  - { group: g }\n'],
  ['in its group, since its own is null', `${G}monitors: [{ group: g, runtimeId: ~ }]`],
  ['in the group of the defaults', `defaults: { group: g }\n${G}monitors: [{ name: A }]`],
  ['with an anchor', 'monitors:\n  - runtimeId: &old "2024.09"\n  - runtimeId: *old\n'],
  ['in a mapping that is merged', `${BASE}monitors:\n  - { <<: *b, name: A }\n`],
  [
    'in the first of several that are merged',
    `x: &a { tags: [] }\n${BASE}z: &c { runtimeId: "x" }\nmonitors:\n  - { <<: [*a, *b, *c] }\n`,
  ],
])('%s', (_, text) => {
  expect(text.split('2024.09')).toHaveLength(2)
  const now = changed(text)
  expect(now).toBe(text.replace('2024.09', '2026.04'))
  expect(() => parse(now ?? '', { merge: true })).not.toThrow()
})

test.each([
  ['none is named', 'monitors:\n  - name: A\n'],
  ['all name null', 'groups: { g: {} }\nmonitors:\n  - { group: g, runtimeId: ~ }\n'],
])('where %s, nothing is found', (_, text) => expect(findRuntimes(text)(0)).toBeUndefined())

test('monitors of one group are found in one place, with its line', () => {
  const text = 'groups:\n  g:\n    runtimeId: "2024.09"\nmonitors: [{ group: g }, { group: g }]\n'
  const find = findRuntimes(text)
  expect(find(0)).toEqual(find(1))
  expect(find(0)?.line).toBe(3)
})

test('an alias is found at its anchor, which does not change if it also has another meaning', () => {
  const text = 'variables: { A: &old "2024.09" }\nmonitors:\n  - runtimeId: *old\n'
  const found = findRuntimes(text)(0)
  expect(found?.line).toBe(1)
  expect(withRuntimes(text, found === undefined ? [] : [found], MOVE)).toBeUndefined()
})

test('several places are changed at once, and other runtimes stay', () => {
  const one = (id: string) => `  - { name: ${id}, runtimeId: "${id}" }\n`
  const text = `monitors:\n${one('2024.09')}${one('2025.04')}${one('2024.09')}`
  const find = findRuntimes(text)
  const places = [0, 2].flatMap((index) => find(index) ?? [])
  const now = withRuntimes(text, places, MOVE)
  expect(now?.match(/runtimeId: "[\d.]+"/g)).toEqual(
    ['2026.04', '2025.04', '2026.04'].map((id) => `runtimeId: "${id}"`),
  )
  expect(now).toContain('name: 2024.09')
})

test.each([
  ['it is written with escapes', 'monitors:\n  - runtimeId: "2024\\u002e09"\n'],
  ['the place is another one', 'monitors:\n  - { script: "2024.09", runtimeId: "2024.09" }\n'],
])('nothing is changed where %s', (_, text) => {
  const start = text.indexOf('2024')
  const place = { start: start - 1, end: text.indexOf('"', start) + 1, line: 2 }
  expect(withRuntimes(text, [place], MOVE)).toBeUndefined()
})
