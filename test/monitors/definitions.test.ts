// Aim: every type of monitor of the contract has a schema; what it
// takes to run a monitor is worked out; definitions with variables are checked as they will be run.
import { describe, expect, test } from 'vitest'
import type * as z from 'zod'
import {
  CHECK_TYPES,
  DEFINED_TYPES,
  DEFINITIONS,
  METRICS,
  needsOf,
  readDefinition,
  typeProblem,
} from '../../src/monitors/definitions.ts'
import { FAILURES } from '../../src/contract/failure.ts'
import type { Monitor } from '../../src/contract/monitor.ts'
import { DEFAULT_RUNTIME, LIMITS, MANIFESTS } from '../../src/contract/versions.ts'
import { definitionOf, type Fields } from '../support/definitions.ts'

const schemaOf = (checkType: string) => DEFINITIONS.get(checkType)?.schema as z.ZodType
const parse = (checkType: string, more: Fields = {}) =>
  schemaOf(checkType).parse(definitionOf(checkType, more)) as Monitor

describe('types', () => {
  test('all of the contract have a schema but the one that runs nowhere private', () => {
    expect(CHECK_TYPES.filter((one) => DEFINITIONS.get(one)?.schema === undefined)).toEqual([
      'AGENTIC',
    ])
    expect(typeProblem('AGENTIC')).toContain('private locations')
    expect(typeProblem('toString')).toContain('must be one of URL, API')
    expect(DEFINITIONS.get('toString')?.schema).toBeUndefined()
  })

  test('share no failure code, no limit, no path and no help text of a metric', () => {
    const all = [...DEFINITIONS.values()]
    const limits = [LIMITS, ...all.map((one) => one.limits ?? {})].flatMap((some) =>
      Object.keys(some),
    )
    expect(limits).toEqual([...new Set(limits)])
    const owners = [FAILURES, ...all.map(({ failures = {} }) => failures)]
    const codes = owners.flatMap((table) => Object.keys(table))
    expect(codes).toEqual([...new Set(codes)])
    const paths = all.flatMap(({ path, analytics }) => [path, ...(analytics?.paths ?? [])])
    const ofOneType = all.flatMap(({ path, analytics }) => [
      ...new Set([path, ...(analytics?.paths ?? [])]),
    ])
    expect(new Set(paths).size).toBe(ofOneType.length)
    for (const [name, help] of all.flatMap(({ metrics }) => Object.entries(metrics))) {
      expect([name, METRICS.get(name)]).toEqual([name, help])
    }
  })

  test.each(DEFINED_TYPES)('what %s parses to parses to itself, and has no unknown key', (type) => {
    const once = parse(type)
    expect(schemaOf(type).parse(once)).toEqual(once)
    expect(schemaOf(type).safeParse({ ...once, surprise: 1 }).success).toBe(false)
  })
})

describe('what it takes to run', () => {
  const newest = `runtime:${DEFAULT_RUNTIME}`
  test.each<[string, string, Fields, string[]]>([
    ['a network monitor: its type', 'DNS', {}, []],
    ['a browser: the newest runtime', 'BROWSER', {}, [newest]],
    ['a browser with a runtime: that', 'BROWSER', { runtimeId: '2025.04' }, ['runtime:2025.04']],
    ['an API monitor without scripts: no runtime', 'API', { runtimeId: '2025.04' }, []],
    ['an empty script is none', 'API', { localSetupScript: ' ' }, []],
    ['an API monitor with one: a runtime', 'API', { localSetupScript: '1' }, [newest]],
    ['a suite: Node 22', 'PLAYWRIGHT', {}, ['engine:node@22']],
    ...(
      [
        ['node', '18', 'node@22'],
        ['node', '23', 'node@24'],
        ['node', '27', 'node@26'],
        ['node', null, 'node@22'],
        ['bun', '1.2', 'bun@1.3'],
      ] as const
    ).map(([engine, engineVersion, chosen]): [string, string, Fields, string[]] => [
      `${engine} ${engineVersion}: ${chosen}`,
      'PLAYWRIGHT',
      { engine, engineVersion },
      [`engine:${chosen}`],
    ]),
  ])('%s', (_, checkType, fields, more) => {
    expect(needsOf(parse(checkType, fields))).toEqual([checkType, ...more])
  })

  test('can be had from this version', () => {
    expect(MANIFESTS.at(-1)?.runtimes).toContain(DEFAULT_RUNTIME)
  })
})

describe('a definition with variables', () => {
  const known: Record<string, string> = { HOST: 'https://a.test', BAD: 'ftp://a.test' }
  const read = (checkType: string, more: Fields) =>
    readDefinition(definitionOf(checkType, more), (name) => known[name])

  test('that are known is checked with them, and stays as it was written', () => {
    expect(read('URL', { request: { url: '{{HOST}}/x' } })).toMatchObject({
      ok: true,
      definition: { frequency: 10, request: { url: '{{HOST}}/x' } },
    })
    expect(read('URL', { request: { url: '{{BAD}}' } })).toMatchObject({
      ok: false,
      problems: [{ path: ['request', 'url'] }],
    })
  })

  test('that are not known is doubted elsewhere alone', () => {
    expect(read('URL', { request: { url: '{{OTHER}}' } })).toMatchObject({ ok: true })
    expect(read('URL', { request: { url: '{{OTHER}}', method: 'POST' } })).toMatchObject({
      ok: false,
      problems: [{ path: ['request', 'method'] }],
    })
  })

  test('that has none comes back with every default', () => {
    expect(read('URL', {})).toMatchObject({ definition: { request: { followRedirects: true } } })
  })

  test.each([undefined, 'AGENTIC', 'X'])('of type %s is refused', (checkType) => {
    const definition = { ...definitionOf('URL'), checkType }
    expect(readDefinition(definition, () => undefined)).toMatchObject({
      ok: false,
      problems: [{ path: ['checkType'] }],
    })
  })
})
