// Aim: what a monitor inherits from its group, by table and by property.
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { DEFINITIONS, effectiveMonitor } from '../../../src/monitors/definitions.ts'
import { CheckGroup, inheritanceProblem } from '../../../src/contract/api/check-group.ts'
import type { Monitor } from '../../../src/contract/monitor.ts'
import { definitionOf, type Fields } from '../../support/definitions.ts'

const monitorOf = (fields: Fields = {}, checkType = 'URL') =>
  DEFINITIONS.get(checkType)?.schema?.parse(definitionOf(checkType, fields)) as Monitor
const groupOf = (fields: Fields = {}) => CheckGroup.parse({ name: 'G', ...fields })
const holds = (own: Fields, group: Fields, checkType = 'URL') =>
  effectiveMonitor(monitorOf(own, checkType), groupOf(group))

test('the least group gets every default, and changes nothing', () => {
  expect(groupOf()).toEqual({
    name: 'G',
    activated: true,
    muted: false,
    tags: [],
    locations: [],
    concurrency: 10,
    runtimeId: null,
    alertChannelSubscriptions: [],
    environmentVariables: [],
  })
  const all = [monitorOf(), monitorOf({}, 'API'), monitorOf({}, 'BROWSER')]
  expect(all.map((one) => effectiveMonitor(one, groupOf()))).toEqual(all)
  expect(effectiveMonitor(all[0] as Monitor, undefined)).toBe(all[0])
})

const retry = { type: 'FIXED', baseBackoffSeconds: 1, maxRetries: 3 }
const variable = (key: string, value: string) => ({ key, value, locked: false, secret: false })
const alerts = { escalationType: 'TIME_BASED' }

const once = { type: 'NO_RETRIES' }
const [A1, A2, B3] = [variable('A', '1'), variable('A', '2'), variable('B', '3')]
const on = (alertChannelId: number, activated = true) => ({ alertChannelId, activated })
const CHANNELS = 'alertChannelSubscriptions'

describe('what holds', () => {
  test.each<[field: string, own: unknown, group: unknown, effective: unknown]>([
    ['activated', true, false, false],
    ['activated', false, true, false],
    ['muted', false, true, true],
    ['muted', true, false, true],
    ['tags', ['a', 'b'], ['b', 'c'], ['a', 'b', 'c']],
    [CHANNELS, [on(1, false)], [on(1), on(2)], [on(1, false), on(2)]],
    ['privateLocations', ['a'], ['b', 'c'], ['b', 'c']],
    ['privateLocations', ['a'], [], ['a']],
    ['runParallel', true, false, false],
    ['runParallel', true, null, true],
    ['retryStrategy', null, retry, retry],
    ['retryStrategy', retry, once, once],
    ['retryStrategy', retry, null, retry],
    ['retryStrategy', retry, 'FALLBACK', retry],
    ['runtimeId', '2026.04', '2025.04', '2026.04'],
    ['runtimeId', null, '2025.04', '2025.04'],
    ['environmentVariables', [A1], [A2, B3], [A1, B3]],
  ])('of %s: %j in a group with %j is %j', (field, own, group, effective) => {
    expect(holds({ [field]: own }, { [field]: group })).toMatchObject({ [field]: effective })
  })

  const account = { useGlobalAlertSettings: true }
  const ownAlerts = { useGlobalAlertSettings: false, alertSettings: alerts }
  const unset = { useGlobalAlertSettings: null, alertSettings: null }
  const both = { ...account, alertSettings: alerts }
  const at = (location: string, privateLocations: string[] | null) => {
    return { locations: [location], privateLocations }
  }
  const url = { apiCheckDefaults: { url: 'https://a.test' } }
  const base = { environmentVariables: [variable('GROUP_BASE_URL', 'https://a.test')] }
  test.each<[string, Fields, Fields, Fields]>([
    ['public and private locations each for itself', at('x', ['a']), at('y', null), at('y', ['a'])],
    ['alert settings of the group', account, { alertSettings: alerts }, ownAlerts],
    ['those of the account', ownAlerts, both, { ...account, alertSettings: null }],
    ['own alert settings', ownAlerts, unset, ownAlerts],
    ['the group’s address as a variable', {}, url, base],
  ])('%s', (_, own, group, expected) => {
    expect(holds(own, group)).toMatchObject(expected)
  })

  test('request defaults of the group, behind the own ones, of API monitors alone', () => {
    const pair = (key: string, value: string) => ({ key, value, locked: false })
    const defaults = {
      queryParameters: [pair('q', 'group')],
      basicAuth: { username: 'group', password: 'p' },
      assertions: [{ source: 'STATUS_CODE', comparison: 'EQUALS', target: '200' }],
    }
    const headers = [pair('x-a', 'group'), pair('X-B', 'group')]
    const scripts = { localSetupScript: 'group', localTearDownScript: 'group' }
    const group = { apiCheckDefaults: { headers, ...defaults }, ...scripts }
    const request = { headers: [pair('X-A', 'own')], basicAuth: { username: '', password: '' } }
    const effective = holds({ request, localTearDownScript: 'own' }, group, 'API')
    expect(effective).toMatchObject({
      localSetupScript: 'group',
      localTearDownScript: 'own',
      request: { headers: [pair('X-A', 'own'), pair('X-B', 'group')], ...defaults },
    })
    expect(DEFINITIONS.get('API')?.schema?.parse(effective)).toEqual(effective)
    expect(holds({}, group, 'URL')).toEqual(monitorOf())
  })

  test.each(['PLAYWRIGHT', 'HEARTBEAT'])('no retries of %s, from group or monitor', (checkType) => {
    expect(holds({}, { retryStrategy: retry }, checkType).retryStrategy).toBeNull()
    const alone = monitorOf({ retryStrategy: retry }, checkType)
    expect(effectiveMonitor(alone, undefined).retryStrategy).toBeNull()
  })
})

const tag = fc.constantFrom('a', 'b', 'c', 'd')
const tags = fc.uniqueArray(tag)
const shared = {
  activated: fc.boolean(),
  muted: fc.boolean(),
  tags,
  locations: tags,
  privateLocations: fc.option(tags),
  runParallel: fc.boolean(),
  runtimeId: fc.constantFrom(null, '2026.04', '2025.04'),
  retryStrategy: fc.constantFrom(null, { type: 'FIXED' }, { type: 'NO_RETRIES' }),
  environmentVariables: fc.uniqueArray(fc.record({ key: tag, value: fc.string() }), {
    selector: ({ key }) => key,
  }),
}
const anyMonitor = fc.record(shared, { requiredKeys: [] }).map((fields) => monitorOf(fields))
const anyGroup = fc.record(shared, { requiredKeys: [] }).map((fields) => groupOf(fields))

test('for any monitor in any group the outcome is whole, and nothing of its own is lost', () => {
  fc.assert(
    fc.property(anyMonitor, anyGroup, (monitor, group) => {
      const before = structuredClone([monitor, group])
      const effective = effectiveMonitor(monitor, group)
      expect([monitor, group]).toEqual(before)
      expect(DEFINITIONS.get('URL')?.schema?.parse(effective)).toEqual(effective)
      // Being in the group twice changes nothing more.
      expect(effectiveMonitor(effective, group)).toEqual(effective)
      const { tags: own, environmentVariables, locations, privateLocations, runtimeId } = effective
      expect(own).toEqual(expect.arrayContaining(monitor.tags))
      expect(environmentVariables).toEqual(expect.arrayContaining(monitor.environmentVariables))
      expect(runtimeId).toBe(monitor.runtimeId ?? group.runtimeId)
      // A location is its own or the group's, never from both.
      expect([monitor.locations, group.locations]).toContainEqual(locations)
      expect([monitor.privateLocations, group.privateLocations]).toContainEqual(privateLocations)
    }),
  )
})

test('together they may not grow past the bounds', () => {
  const many = (count: number, prefix: string) =>
    Array.from({ length: count }, (_, n) => ({ key: `${prefix}${n}`, value: '' }))
  const own = { environmentVariables: many(150, 'A') }
  expect(inheritanceProblem(holds(own, { environmentVariables: many(50, 'B') }))).toBeUndefined()
  expect(inheritanceProblem(holds(own, { environmentVariables: many(51, 'B') }))).toContain('200')
  const request = { request: { headers: many(200, 'A') } }
  const defaults = { apiCheckDefaults: { headers: many(1, 'B') } }
  expect(inheritanceProblem(holds(request, defaults, 'API'))).toContain('headers')
})

const SOURCE = 'apiCheckDefaults.assertions.0.source'
const assertions = [{ source: 'X', comparison: 'EQUALS' }]
test.each<[string, Fields, string]>([
  ['no name', { name: '' }, 'name'],
  ['an unknown field', { frequency: 5 }, ''],
  ['nothing at a time', { concurrency: 0 }, 'concurrency'],
  ['older rules', { v: 1 }, 'v'],
  ['a source that API monitors do not have', { apiCheckDefaults: { assertions } }, SOURCE],
])('refused: %s', (_, fields, path) => {
  const issues = CheckGroup.safeParse({ name: 'G', ...fields }).error?.issues ?? []
  expect(issues.map((one) => one.path.join('.'))).toEqual([path])
})
