// Aim: the scripts on the manual pages run, and have results of the form that their pages show. They are run by the
// system's Chromium, and the Playwright and Node.js of this project.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text as textOf } from 'node:stream/consumers'
import { parse } from 'yaml'
import { expect, test } from 'vitest'
import { createFindings } from '../src/agent/monitors-file/problems.ts'
import { expandShorthands } from '../src/agent/monitors-file/shorthands.ts'
import type { Variable } from '../src/contract/monitor.ts'
import { api } from '../src/monitors/api/index.ts'
import { browser } from '../src/monitors/browser/index.ts'
import { multistep } from '../src/monitors/multistep/index.ts'
import { missing } from './support/needs.ts'
import { blocksOf, chapter, hasForm, page, pages } from './support/pages.ts'
import { copyPlaywright, testScriptHost } from './support/scripts/script-host.ts'
import { runScriptMonitor } from './support/scripts/script-runs.ts'
import { runFolder, suiteHost, suiteProject } from './support/suites/suite-runs.ts'
import { startHttpServer } from './support/test-server.ts'

const BROWSER_PAGE = page('src/monitors/browser/README.md')
const SHOP = 'https://shop.example.com'
const host = testScriptHost()

/** Definitions of a monitors file, with the shop at this address and variables as the agent gives them. */
function monitorsOf(yaml: string, authority?: string) {
  const aimed = authority === undefined ? yaml : yaml.replaceAll(SHOP, `http://${authority}`)
  const { monitors } = parse(aimed) as { monitors: Record<string, unknown>[] }
  return monitors.map((one) => {
    const { name: _, checkType: __, ...definition } = expandShorthands(one, [], createFindings())
    const { environmentVariables: own = [] } = definition as { environmentVariables?: Variable[] }
    return { definition, variables: Object.fromEntries(own.map(({ key, value }) => [key, value])) }
  })
}

/** A shop with a front page and orders. */
const startShop = () =>
  startHttpServer(({ url = '' }, response) => {
    const isPage = !url.startsWith('/orders')
    response.setHeader('content-type', isPage ? 'text/html' : 'application/json')
    response.end(isPage ? '<!doctype html><title>Shop</title>' : '{"id": 1}')
  })

const scripts = [
  { type: browser, text: BROWSER_PAGE },
  { type: multistep, text: page('src/monitors/multistep/README.md') },
].flatMap(({ type, text }) =>
  blocksOf('yaml', text).map((yaml, index) => ({
    name: `${type.checkType} ${index + 1}`,
    type,
    yaml,
  })),
)
const why = missing('chromium')

test.skipIf(why !== undefined).each(scripts)(
  `$name passes ${why ?? ''}`,
  async ({ type, yaml }) => {
    await using shop = await startShop()
    for (const { definition, variables } of monitorsOf(yaml, shop.authority)) {
      const { observed, failures } = await runScriptMonitor(type, definition, { host, variables })
      expect(failures).toEqual([])
      expect(type !== browser || shownOn(BROWSER_PAGE, observed)).toBe(true)
    }
  },
)

test('the scripts of an API monitor log in, send an order and delete it', async () => {
  const withScripts = [...pages.values()]
    .flatMap((text) => blocksOf('yaml', text))
    .filter((yaml) => yaml.includes('localSetupScript:'))
  expect(withScripts).toHaveLength(1)
  const [yaml = ''] = withScripts
  const received: Record<string, string | undefined>[] = []
  await using shop = await startHttpServer((request, response) => {
    void textOf(request).then((body) => {
      const { method, url, headers } = request
      received.push({ method, url, token: headers.authorization, body })
      response.setHeader('content-type', 'application/json')
      return response.end(url === '/login' ? '{"token": "t1"}' : '{"status": "open"}')
    })
  })
  for (const { definition } of monitorsOf(yaml, shop.authority)) {
    const variables = { SHOP_KEY: 'k1' }
    const { failures } = await runScriptMonitor(api, definition, { host, variables })
    expect(failures).toEqual([])
  }
  const [, order] = /"([0-9a-f-]{36})"/.exec(received[1]?.['body'] ?? '') ?? []
  expect(received).toEqual([
    { method: 'POST', url: '/login', token: undefined, body: '{"key":"k1"}' },
    { method: 'POST', url: '/orders', token: 'Bearer t1', body: `{"order": "${order}"}` },
    { method: 'DELETE', url: `/orders/${order}`, token: undefined, body: '' },
  ])
})

const SUITE_PAGE = page('src/monitors/suite/README.md')
const PACKAGES = ['@playwright/test', 'playwright', 'playwright-core']

/** A package that `npm ci` gives Playwright out of its own folder. */
function withPlaywright(folder: string): void {
  copyPlaywright(join(folder, 'vendor'))
  const write = (path: string, json: object) =>
    writeFileSync(join(folder, path), JSON.stringify(json))
  const own = PACKAGES.map((name) => [name, `file:vendor/${name}`])
  const root = { devDependencies: Object.fromEntries(own) as Record<string, string> }
  const packages: Record<string, object> = { '': root }
  for (const name of PACKAGES) {
    const [path, version] = [`vendor/${name}`, '1.0.0']
    const file = `${path}/package.json`
    const whole = JSON.parse(readFileSync(join(folder, file), 'utf8')) as Record<string, unknown>
    // What it needs would come from a registry.
    const { dependencies: _, optionalDependencies: __, ...others } = whole
    write(file, { ...others, version })
    packages[path] = { version }
    packages[`node_modules/${name}`] = { resolved: path, link: true }
  }
  write('package.json', root)
  write('package-lock.json', { lockfileVersion: 3, packages })
}

const suites = blocksOf('yaml', SUITE_PAGE).map((yaml, index) => ({
  name: `suite ${index + 1}`,
  yaml,
}))

test.each(suites)('$name passes', async ({ yaml }) => {
  const spec = (title: string) => `import { expect, test } from '@playwright/test'
    test('${title}', () => expect(process.env.SHOP_URL).toBe(process.env.EXPECTED_URL))`
  const projects = [{ name: 'chromium' }, { name: 'firefox' }]
  const folder = suiteProject({
    'playwright.config.ts': `export default { testIgnore: 'packages/**' }`,
    'shop.spec.ts': spec('opens'),
    'packages/shop/playwright.config.ts': `export default ${JSON.stringify({ projects })}`,
    'packages/shop/shop.spec.ts': spec('opens @smoke'),
    'packages/shop/pay.spec.ts': spec('pays'),
  })
  withPlaywright(join(folder, 'packages/shop'))
  for (const { definition, variables } of monitorsOf(yaml)) {
    const { codeBundlePath: _, ...fields } = definition
    const isSet = 'SHOP_URL' in variables
    const around = { variables: { ...variables, ...(isSet && { EXPECTED_URL: SHOP }) } }
    const { observed, failures } = await runFolder(suiteHost(), folder, fields, around)
    expect(failures).toEqual([])
    expect(observed).toMatchObject({ stats: { total: 1, expected: 1 } })
    expect(shownOn(SUITE_PAGE, observed)).toBe(true)
  }
})

/** Whether the result on a page has the form of this observation. */
function shownOn(text: string, observed: unknown): boolean {
  const [json = ''] = blocksOf('json', chapter(text, 'Result') ?? '')
  return hasForm((JSON.parse(json) as { observed: unknown }).observed, observed)
}
