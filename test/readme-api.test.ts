// Aim: the pages of the platform have the fields of every body of the public API, with type, default and bounds, and no
// other. What a monitor of each type has is on the pages of the types.
import { globSync } from 'node:fs'
import { dirname } from 'node:path'
import * as z from 'zod'
import { expect, test } from 'vitest'
import { commonFields } from '../src/contract/monitor.ts'
import { PROBLEM_SCHEMAS } from '../src/contract/schema/problem.ts'
import { fieldProblems } from './support/documented-fields.ts'
import { codeNamesIn, page, pages, tablesIn, withLinkedPages } from './support/pages.ts'
import { describedApi } from './support/platform/described-api.ts'

type Shape = Record<string, z.ZodType>
/** Name in the document → fields. */
type Bodies = ReadonlyMap<string, Shape>

/** The bodies with a name in schemas and their parts. */
function bodiesIn(schemas: readonly (z.ZodType | undefined)[]): Bodies {
  const named = new Map<string, Shape>()
  const seen = new Set<unknown>()
  const walk = (schema: z.ZodType | undefined): void => {
    if (schema === undefined || seen.has(schema)) return
    seen.add(schema)
    const { shape, options, ...parts } = schema.def as {
      shape?: Shape
      options?: z.ZodType[]
    } & Partial<Record<'innerType' | 'element' | 'in' | 'out', z.ZodType>>
    const { id } = z.globalRegistry.get(schema) ?? {}
    if (id !== undefined && shape !== undefined) named.set(id, shape)
    const { innerType, element, in: from, out } = parts
    const all = [...(options ?? []), ...Object.values(shape ?? {}), innerType, element, from, out]
    for (const one of all) walk(one)
  }
  for (const one of schemas) walk(one)
  return named
}

interface Media {
  content?: Record<string, { schema: z.ZodType }>
}
const jsonOf = (body: unknown) => (body as Media | undefined)?.content?.['application/json']?.schema

const routes = describedApi().openAPIRegistry.definitions.flatMap((one) =>
  one.type === 'route' ? [one.route] : [],
)
const sent = bodiesIn(routes.map(({ request }) => jsonOf(request?.body)))
const answered = bodiesIn(
  routes.flatMap(({ responses }) => [jsonOf(responses[200]), jsonOf(responses[201])]),
)
const bodies: Bodies = new Map([...sent, ...answered])
const elsewhere = new Set(bodies.values())

const isListing = (shape: Shape) => 'nextId' in shape && 'entries' in shape
/** The thing that a body makes or changes. */
const baseOf = (id: string) => {
  const base = id.replace(/(Input|Change|Replacement|Patch)$/, '')
  return bodies.has(base) ? base : id
}

/** A body that has all fields of another shows only the rest. */
const EXTENDS: Readonly<Record<string, string>> = {
  AgentError: 'PlatformError',
  CheckResultDetail: 'CheckResult',
  CheckRunDetail: 'CheckRun',
  NewPrivateLocationKey: 'PrivateLocationKey',
}
const { id: _, ...ofEveryMonitor } = commonFields

const isIgnored = (schema: z.ZodType) =>
  schema instanceof z.ZodOptional && schema.def.innerType instanceof z.ZodUnknown

/** The fields of a thing: what no body sets, only answers have. */
function fieldsOf(id: string): { shape: Shape; isSent: boolean } {
  const requests = [...sent].filter(([one]) => baseOf(one) === id).map(([, shape]) => shape)
  const written = requests
    .toReversed()
    .flatMap((shape) => Object.entries(shape))
    .filter(([, schema]) => !isIgnored(schema))
  const isSent = written.length > 0
  const read = Object.entries(answered.get(id) ?? {}).map(([name, schema]): [string, z.ZodType] => [
    name,
    isSent ? schema.readonly() : schema,
  ])
  const omitted = id === 'Check' ? ofEveryMonitor : (bodies.get(EXTENDS[id] ?? '') ?? {})
  const fields = [...read, ...written].filter(([name]) => !Object.hasOwn(omitted, name))
  return { shape: Object.fromEntries(fields), isSent }
}

const things = [...bodies]
  .filter(([id, shape]) => baseOf(id) === id && !isListing(shape))
  // Some of the fields of another; and what the pages of the types have.
  .filter(([id]) => id !== 'CheckResultFields' && !id.endsWith('CheckInput'))
  .map(([id]) => ({ id, ...fieldsOf(id) }))

const headOf = (id: string) => `field of \`${id}\``
const pagesOfApi = [...pages.keys()].filter((path) => path.startsWith('src/platform/'))

test('each resource has a page', () => {
  const root = new URL('..', import.meta.url).pathname
  const folders = globSync('src/platform/*/routes.ts', { cwd: root }).map((path) => dirname(path))
  expect(folders.length).toBeGreaterThan(12)
  expect(folders.filter((folder) => page(`${folder}/README.md`) === '')).toEqual([])
})

test.each(things)('a page has the fields of $id', ({ id, shape, isSent }) => {
  const isOn = (path: string) => tablesIn(page(path)).some(({ head }) => head[0] === headOf(id))
  const path = pagesOfApi.find(isOn) ?? ''
  expect(path).not.toBe('')
  const tables = tablesIn(page(path))
  const own = tables.find(({ head }) => head[0] === headOf(id))
  expect(own?.head.includes('default')).toBe(isSent)
  const api = { name: id, elsewhere }
  expect(fieldProblems(shape, tables, withLinkedPages(path), api)).toEqual([])
})

test('each table of fields is of one of these, or of a part of one', () => {
  const names = pagesOfApi.flatMap((path) =>
    tablesIn(page(path)).flatMap(({ head }) => /^field of `(\w+)/.exec(head[0] ?? '')?.[1] ?? []),
  )
  expect(names.length).toBeGreaterThan(40)
  expect(names.filter((name) => !things.some(({ id }) => id === name))).toEqual([])
})

test('listings have the fields that the page of the API names', () => {
  const listings = [...bodies.values()].filter(isListing)
  expect(listings.length).toBeGreaterThan(4)
  const names = new Set(listings.flatMap((shape) => Object.keys(shape)))
  expect(names).toEqual(new Set(['length', 'entries', 'nextId']))
  const text = page('src/platform/http/README.md')
  expect([...names].filter((name) => !text.includes(`\`${name}\``))).toEqual([])
})

test('the page of the API has every status and field of errors', () => {
  const text = page('src/platform/http/README.md')
  const table = tablesIn(text).find(({ head }) => head[0] === 'status')
  expect(table?.rows.map(([status]) => Number(status))).toEqual([...PROBLEM_SCHEMAS.keys()])
  const fields = new Set([...bodiesIn([...PROBLEM_SCHEMAS.values()]).values()].flatMap(Object.keys))
  const known = codeNamesIn(text)
  expect([...fields].filter((name) => !known.has(name))).toEqual([])
})
