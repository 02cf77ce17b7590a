// Monitors of a file run as their groups say; a problem of a group is reported once, at its place.
import { describe, expect, test } from 'vitest'
import { createFilesFolder } from '../../support/agent/monitors-files.ts'

const files = createFilesFolder()

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
    const headers = [{ key: 'X-B', value: '{{B}}' }]
    const assertions = [{ source: 'STATUS_CODE', target: '200' }]
    const own = { key: 'B', value: 'own' }
    expect(monitors[0]).toMatchObject({
      id: 'a',
      activated: false,
      tags: ['own', 'shop'],
      retryStrategy: { type: 'SINGLE_RETRY' },
      environmentVariables: [own, { key: 'C', value: 'group' }],
      request: { url: 'http://a.test/', headers, assertions },
    })
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
  const inShop = '    group: shop'
  const shop = (fields: string) => file(`  shop: { ${fields} }`, inShop)
  const ENVIRONMENT = 'groups.shop.environmentVariables[0].value'
  test.each([
    [file('  shop: {}', '    group: shp'), ':7:12  monitors[0].group: ', 'did you mean shop?'],
    [file('', inShop), ':7:12  monitors[0].group: ', 'define it under groups'],
    [file('  shop: {}', `${inShop}\n    groupId: 5`), ':7:12  monitors[0].group: ', 'groupId'],
    [file('  - shop', ''), ':2:3  groups: ', 'must be a mapping of keys to groups'],
    [file('  shop: yes please', ''), ':2:9  groups.shop: ', 'must be a group'],
    // Reported once, and the value of a secret is not shown.
    [shop('runParalel: true'), ':2:11  groups.shop.runParalel: ', 'did you mean runParallel?'],
    [shop('environmentVariables: [{ key: A, value: 12345 }]'), `:2:51  ${ENVIRONMENT}: `, 'quotes'],
  ])('%j: %s…%s', async (text, place, detail) => {
    const lines = await files.problems(text)
    expect(lines).toHaveLength(1)
    expect(lines[0]?.startsWith(place)).toBe(true)
    expect(lines[0]).toContain(detail)
    expect(lines[0]).not.toContain('12345')
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
