// Aim: a value in a template is always a parameter, and the text of a statement is made once.
import { expect, test } from 'vitest'
import { raw, sql } from '../../src/database/sql.ts'

const byName = (name: string, tags: string[]) =>
  sql<{ id: string }>('by-name')`
    select ${raw('id')} from users where name = ${name} and tags && ${tags} limit ${raw(5)}`

test('numbers the values, and takes fragments into the text', () => {
  const statement = byName("' or 1 = 1 --", ['a', 'b'])
  expect(statement).toEqual({
    name: 'by-name',
    text: '\n    select id from users where name = $1 and tags && $2 limit 5',
    values: ["' or 1 = 1 --", ['a', 'b']],
  })
  expect(byName('other', ['x'])).toEqual({ ...statement, values: ['other', ['x']] })
})

test('passes null and values that look like parameters', () => {
  expect(sql('values')`select ${null}, ${'$1'}`).toMatchObject({
    text: 'select $1, $2',
    values: [null, '$1'],
  })
})
