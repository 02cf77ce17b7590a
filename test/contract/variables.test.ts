// Variables in definitions are put in deep, once, and never where they would end up in names.
import { expect, test } from 'vitest'
import { substitute, substituteOwn } from '../../src/contract/variables.ts'

const values = new Map(Object.entries({ HOST: 'db.local', TOKEN: 's3cret', LOOP: '{{HOST}}' }))
const lookup = (name: string) => values.get(name)

test.each<[string, unknown, unknown]>([
  ['a whole string', '{{HOST}}', 'db.local'],
  ['a part of a string, more than once', '{{HOST}}:1/{{HOST}}', 'db.local:1/db.local'],
  ['blanks inside the braces', '{{ HOST }}', 'db.local'],
  ['in lists and objects', { a: [{ b: '{{TOKEN}}' }] }, { a: [{ b: 's3cret' }] }],
  ['not in keys', { '{{HOST}}': 1 }, { '{{HOST}}': 1 }],
  ['a value is not looked at again', '{{LOOP}}', '{{HOST}}'],
  ['other templates are left alone', '{{$UUID}} {{#if x}} {{{', '{{$UUID}} {{#if x}} {{{'],
  ['numbers and nothing stay', [1, null, true], [1, null, true]],
])('%s', (_, given, expected) => {
  expect(substitute(given, lookup)).toEqual({ value: expected, unknown: [] })
})

test('what holds no reference is not copied', () => {
  const given = { a: [{ b: 'plain' }] }
  expect(substitute(given, lookup).value).toBe(given)
})

test('unknown names are reported once each and stay as written', () => {
  const given = ['{{NOPE}}', '{{HOST}} {{NOPE}} {{toString}}']
  expect(substitute(given, lookup)).toEqual({
    value: ['{{NOPE}}', 'db.local {{NOPE}} {{toString}}'],
    unknown: ['NOPE', 'toString'],
  })
})

test('only the own fields of a type are changed', () => {
  const monitor = { id: '{{HOST}}', name: '{{TOKEN}}', tags: ['{{HOST}}'], request: '{{HOST}}' }
  expect(substituteOwn(monitor, lookup)).toEqual({
    value: { ...monitor, request: 'db.local' },
    unknown: [],
  })
})
