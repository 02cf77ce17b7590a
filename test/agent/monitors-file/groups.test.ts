// Aim: monitors of a file run as their groups make them, without any platform; what is wrong with a group
// is reported once and with its place; types that this agent cannot run stay refused.
import { afterAll, describe, expect, test } from 'vitest'
import { createFilesFolder } from '../../support/agent/monitors-files.ts'
import { MONITOR_TYPES } from '../../../src/monitors/registry.ts'

/** The types that this code can run, as messages list them. */
const TYPES = [...MONITOR_TYPES.keys()].join(', ')

const files = createFilesFolder()
afterAll(files.remove)

const file = (groups: string, monitor: string) =>
  `groups:\n${groups}\nmonitors:\n  - name: A\n    type: API\n    request: { method: GET, url: "http://a.test/" }\n${monitor}\n`

describe('a monitor in a group', () => {
  test('runs with what the group sets, behind or instead of its own', async () => {
    const { monitors } = await files.load(
      file(
        `  shop:
    tags: [shop]
    activated: false
    retryStrategy: { type: SINGLE_RETRY }
    environmentVariables: [{ key: B, value: group }, { key: C, value: group }]
    apiCheckDefaults:
      headers: [{ key: X-B, value: '{{B}}' }]
      assertions: [STATUS_CODE EQUALS 200]`,
        `    group: shop
    tags: [own]
    environmentVariables: [{ key: B, value: own }]`,
      ),
    )
    expect(monitors).toMatchObject([
      {
        id: 'a',
        activated: false,
        tags: ['own', 'shop'],
        retryStrategy: { type: 'SINGLE_RETRY' },
        environmentVariables: [
          { key: 'B', value: 'own' },
          { key: 'C', value: 'group' },
        ],
        request: {
          url: 'http://a.test/',
          headers: [{ key: 'X-B', value: '{{B}}' }],
          assertions: [{ source: 'STATUS_CODE', target: '200' }],
        },
      },
    ])
    expect(monitors[0]).not.toHaveProperty('group')
  })

  test('may use the variables of the group, and its address', async () => {
    const groups = '  shop: { apiCheckDefaults: { url: "http://b.test" } }'
    const { monitors } = await files.load(
      file(groups, '    group: shop').replace('http://a.test/', '{{GROUP_BASE_URL}}/x'),
    )
    expect(monitors[0]?.environmentVariables).toMatchObject([
      { key: 'GROUP_BASE_URL', value: 'http://b.test' },
    ])
  })

  test('may be put there by the defaults of the file', async () => {
    const text = `defaults: { group: shop }\n${file('  shop: { tags: [shop] }', '')}`
    expect((await files.load(text)).monitors[0]?.tags).toEqual(['shop'])
  })
})

describe('a problem', () => {
  test.each([
    [
      'a group that is not there',
      file('  shop: {}', '    group: shp'),
      [':7:12  monitors[0].group: there is no such group; did you mean shop? (got "shp")'],
    ],
    [
      'no groups at all',
      file('', '    group: shop'),
      [
        ':7:12  monitors[0].group: there is no such group; the file has none; write them under groups (got "shop")',
      ],
    ],
    [
      'a group and its number',
      file('  shop: {}', '    group: shop\n    groupId: 5'),
      [':7:12  monitors[0].group: means the same as groupId next to it; keep one of them'],
    ],
    [
      'groups that are a list',
      file('  - shop', ''),
      [
        ':2:3  groups: must be a mapping of keys to groups, like shop: { tags: [shop] } (got a list)',
      ],
    ],
    [
      'a group that is a text',
      file('  shop: yes please', ''),
      [':2:9  groups.shop: must be a group: a mapping of its fields (got "yes please")'],
    ],
    [
      'a field of a group, reported once',
      file('  shop: { runParalel: true }', '    group: shop'),
      [':2:11  groups.shop.runParalel: unknown key; did you mean runParallel?'],
    ],
    [
      'a secret of a group, which is not shown',
      file('  shop: { environmentVariables: [{ key: A, value: 12345 }] }', ''),
      [':2:51  groups.shop.environmentVariables[0].value: must be a text; put it in quotes'],
    ],
    [
      'a type that this agent cannot run',
      'monitors:\n  - name: A\n    type: HEARTBEAT\n    heartbeat: {}\n',
      [`:3:11  monitors[0].type: this agent cannot run HEARTBEAT monitors; it can run ${TYPES}`],
    ],
  ])('%s', async (_, text, expected) => {
    expect(await files.problems(text)).toEqual(expected)
  })

  test('a monitor that grows past the bounds in its group', async () => {
    const many = Array.from({ length: 150 }, (_, n) => n)
    const variables = (prefix: string) =>
      `[${many.map((n) => `{ key: ${prefix}${n}, value: "" }`).join(', ')}]`
    const text = file(
      `  shop: { environmentVariables: ${variables('A')} }`,
      `    group: shop\n    environmentVariables: ${variables('B')}`,
    )
    expect(await files.problems(text)).toEqual([
      ':7:12  monitors[0].group: has more than 200 variables together with its group',
    ])
  })
})
