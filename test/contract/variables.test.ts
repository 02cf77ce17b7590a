// Variables in definitions are put in deep, once, and never where they would end up in names.
import { expect, test } from 'vitest'
import { substitute, substituteOwn } from '../../src/contract/variables.ts'

const values = new Map(Object.entries({ HOST: 'db.local', TOKEN: 's3cret', LOOP: '{{HOST}}' }))
const lookup = (name: string) => values.get(name)

test.each<[string, unknown, unknown]>([
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

test('unknown names are reported once each and stay as written; the rest is not copied', () => {
  const given = ['{{NOPE}}', '{{HOST}} {{NOPE}} {{toString}}']
  const value = ['{{NOPE}}', 'db.local {{NOPE}} {{toString}}']
  expect(substitute(given, lookup)).toEqual({ value, unknown: ['NOPE', 'toString'] })
  const plain = { a: [{ b: 'plain' }] }
  expect(substitute(plain, lookup).value).toBe(plain)
})

test('only the own fields of a type are changed', () => {
  const monitor = { id: '{{HOST}}', name: '{{TOKEN}}', tags: ['{{HOST}}'], request: '{{HOST}}' }
  const value = { ...monitor, request: 'db.local' }
  expect(substituteOwn(monitor, lookup)).toEqual({ value, unknown: [] })
})
