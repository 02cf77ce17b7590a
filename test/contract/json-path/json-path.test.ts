// Aim: a JSONPath means what RFC 9535 says, with `.length`; evaluation never costs more than it was allowed.
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import * as jsonPath from '../../../src/contract/json-path/json-path.ts'

const { compileJsonPath, findByJsonPath, jsonPathProblem, StepsExceeded } = jsonPath
type Json = jsonPath.Json

const find = (path: string, document: Json) =>
  findByJsonPath(compileJsonPath(path), document, 100_000)

const store: Json = {
  store: {
    book: [
      { title: 'A', price: 8, tags: ['x', 'y'] },
      { title: 'B', price: 12, isbn: '1' },
      { title: 'C', price: 22, isbn: '2' },
    ],
    open: true,
    'odd name': null,
  },
  limit: 10,
}

test.each<[string, string, Json[]]>([
  ['the document itself', '$', [store]],
  ['a member', '$.limit', [10]],
  ['a name with escapes', String.raw`$["store"]["\u006fpen"]`, [true]],
  ['an index from the end', '$.store.book[-1].title', ['C']],
  ['an index beyond the end', '$.store.book[7]', []],
  ['a member of what is no object', '$.limit.x', []],
  ['inherited names are no members', '$.constructor', []],
  ['a wildcard', '$.store.book[*].price', [8, 12, 22]],
  ['a union keeps the order asked for', `$.store.book[2,0]['title']`, ['C', 'A']],
  ['a slice backwards', '$.store.book[::-1].title', ['C', 'B', 'A']],
  ['a slice from before the start', '$.store.book[-9:].title', ['A', 'B', 'C']],
  ['descendants', '$..price', [8, 12, 22]],
  ['a filter', '$.store.book[?@.price < 10].title', ['A']],
  ['a filter in the older spelling', '$.store.book[?(@.price < 10)].title', ['A']],
  ['a filter that looks at the root', '$.store.book[?@.price > $.limit].title', ['B', 'C']],
  ['existence', '$.store.book[?@.isbn].title', ['B', 'C']],
  ['negation', '$.store.book[?!@.isbn].title', ['A']],
  ['and binds closer than or', '$.store.book[?@.tags || @.isbn && @.price>20].title', ['A', 'C']],
  ['length()', '$.store.book[?length(@.tags) == 2].title', ['A']],
  ['count()', '$.store.book[?count(@.*) == 3].title', ['A', 'B', 'C']],
  ['value()', '$.store.book[?value(@..title) == "B"].price', [12]],
  ['match() takes the whole text', `$.store.book[?match(@.title, 'A|B')].title`, ['A', 'B']],
  ['search() takes a part', `$.store.book[?search(@.isbn, '[12]')].title`, ['B', 'C']],
  ['a missing value is not less than anything', '$.store.book[?@.isbn < "9"].title', ['B', 'C']],
  ['blanks between segments', '$ .store [ "open" ]', [true]],
])('%s', (_, path, expected) => {
  expect(find(path, store)).toEqual(expected)
})

test.each<[string, string, Json, Json[]]>([
  ['not by UTF-16 unit', '$[?@ < "\u{1F600}"]', ['\uffee'], ['\uffee']],
  ['of an array', '$.items.length', { items: [1, 2, 3] }, [3]],
  ['of a text, in characters', '$.name.length', { name: 'a\u{1F600}' }, [2]],
  ['of each match', '$.*.length', { a: [1], b: 'xy', c: 5 }, [1, 2]],
  ['a member of that name wins', '$.items.length', { items: { length: 'own' } }, ['own']],
  ['not of an object', '$.items.length', { items: { a: 1 } }, []],
  ['not in brackets, where it is a name only', `$.items['length']`, { items: [1] }, []],
])('.length %s', (_, path, document, expected) => {
  expect(find(path, document)).toEqual(expected)
})

describe('mistakes', () => {
  test.each<[string, string, string]>([
    ['nothing at all', '', 'character 1'],
    ['an open bracket', '$.a[', 'character 5'],
    ['a name that needs brackets', '$.foo-bar', 'character 6'],
    ['an unknown function', '$[?size(@)>1]', 'size'],
    ['a filter without comparison', '$[?length(@.a)]', 'comparison'],
    ['a list where one value is needed', '$[?length(@.*)>1]', 'one value'],
    ['an index that no document has', '$[9007199254740992]', 'too large'],
    ['scripts of other dialects', '$.a[(@.length-1)]', 'character 5'],
    ['too many brackets', `$${'[?@'.repeat(100)}`, 'too deep'],
  ])('%s', (_, path, expected) => {
    expect(jsonPathProblem(path)).toContain(expected)
  })

  test('any text at all is read or refused', () => {
    const part = fc.constantFrom(...`$ . .. [ ] ? ( ) @ * ' 1 : a`.split(' '))
    fc.assert(
      fc.property(fc.array(fc.oneof(part, fc.string())), (parts) => {
        const problem = jsonPathProblem(parts.join(''))
        expect(problem ?? 'not a JSONPath').toMatch(/^not a JSONPath/)
      }),
    )
  })
})

describe('cost', () => {
  test.each([
    ['$..a[?@.a > 1]', false],
    [`$[?search(@.a, 'x')]`, true],
    [`$.a[?@.b && !match(@.a, 'x')]`, true],
  ])('%s has a regex: %s', (path, expected) => {
    expect(compileJsonPath(path).hasRegex).toBe(expected)
  })

  test('evaluation stops at the number of steps that it was given', () => {
    const big = Array.from({ length: 300 }, () => Array.from({ length: 300 }, () => [1]))
    expect(() => findByJsonPath(compileJsonPath('$..*..*'), big, 10_000)).toThrow(StepsExceeded)
  })

  test('depth costs no stack', () => {
    let deep: Json = 1
    for (let level = 0; level < 100_000; level++) deep = [deep]
    expect(findByJsonPath(compileJsonPath('$..x'), deep, 1_000_000)).toEqual([])
  })
})
