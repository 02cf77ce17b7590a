// Aim: the scripts on the manual pages run, and have results of the form that their pages show. They are run by the
// system's Chromium, and the Playwright and Node.js of this project.
import { parse } from 'yaml'
import { expect, test } from 'vitest'
import { browser } from '../src/monitors/browser/index.ts'
import { multistep } from '../src/monitors/multistep/index.ts'
import { missing } from './support/needs.ts'
import { blocksOf, chapter, hasForm, page } from './support/pages.ts'
import { testScriptHost } from './support/scripts/script-host.ts'
import { runScriptMonitor } from './support/scripts/script-runs.ts'
import { runFolder, suiteHost, suiteProject } from './support/suites/suite-runs.ts'
import { startHttpServer } from './support/test-server.ts'

interface Scripted {
  name: string
  type: string
  every?: string
  environmentVariables?: { key: string; value: string }[]
}

const BROWSER_PAGE = page('src/monitors/browser/README.md')
const host = testScriptHost()

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
    const aimed = yaml.replaceAll('https://shop.example.com', `http://${shop.authority}`)
    const { monitors } = parse(aimed) as { monitors: Scripted[] }
    for (const { name: _, type: __, every: ___, ...definition } of monitors) {
      const variables = Object.fromEntries(
        (definition.environmentVariables ?? []).map(({ key, value }) => [key, value]),
      )
      const { observed, failures } = await runScriptMonitor(type, definition, { host, variables })
      expect(failures).toEqual([])
      expect(type !== browser || shownOn(BROWSER_PAGE, observed)).toBe(true)
    }
  },
)

test('a suite has a result of the form on its page', async () => {
  const folder = suiteProject({
    'playwright.config.ts': 'export default {}',
    'shop.spec.ts': `import { test } from '@playwright/test'\ntest('opens', () => {})`,
  })
  const { observed, failures } = await runFolder(suiteHost(), folder)
  expect(failures).toEqual([])
  expect(shownOn(page('src/monitors/suite/README.md'), observed)).toBe(true)
})

/** Whether the result on a page has the form of this observation. */
function shownOn(text: string, observed: unknown): boolean {
  const [json = ''] = blocksOf('json', chapter(text, 'Result') ?? '')
  return hasForm((JSON.parse(json) as { observed: unknown }).observed, observed)
}
