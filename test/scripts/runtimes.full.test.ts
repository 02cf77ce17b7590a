// Scripts on the oldest and the newest real runtime: tests and plain scripts, browsers, and calls by packages.
import { beforeAll, describe, expect, test } from 'vitest'
import { browser } from '../../src/monitors/browser/index.ts'
import { multistep } from '../../src/monitors/multistep/index.ts'
import type { AnyMonitorType } from '../../src/monitors/monitor.ts'
import type { ScriptHost } from '../../src/scripts/host.ts'
import { missing } from '../support/needs.ts'
import { testScriptHost } from '../support/scripts/script-host.ts'
import { runScriptMonitor } from '../support/scripts/script-runs.ts'
import { startSmallSite } from '../support/monitors/small-site.ts'
import { INSTALL_MS_MAX, realRuntimes } from '../support/scripts/toolchains.ts'

const IDS = ['2024.09', '2026.04']
const NODE: Record<string, string> = { '2024.09': 'v18.20.', '2026.04': 'v24.' }
const PLAYWRIGHT: Record<string, string> = { '2024.09': '1.48.2', '2026.04': '1.58.2' }
// Browsers start late on a machine that is busy with other tests.
const playwrightConfig = { timeout: 180_000 }

const site = await startSmallSite()
const why = missing('chromium')
let host: ScriptHost

beforeAll(async () => {
  host = testScriptHost({ tools: await realRuntimes(...IDS) })
}, INSTALL_MS_MAX)

function run(type: AnyMonitorType, runtimeId: string, script: string) {
  const written = script.replaceAll('{site}', site.url)
  return runScriptMonitor(type, { script: written, runtimeId, playwrightConfig }, { host })
}

const PAGE = `const page = await browser.newPage()
  await page.goto('{site}/')
  console.log(await page.title())
  await browser.close()`

describe.each(IDS)('runtime %s', (id) => {
  test('has its Node.js, its packages, and a way out for those that look for a proxy', async () => {
    const script = `const axios = require('axios')
      require('@azure/identity')
      void axios.get('{site}/api/items').then(({ data }) => console.log(process.version, data.items[0]))`
    const { failures, observed } = await run(multistep, id, script)
    expect(failures).toEqual([])
    const line = observed.console.find(({ type }) => type === 'stdout')
    expect(line?.text).toContain(NODE[id])
    expect(line?.text).toContain('pen')
  })

  test('runs tests that make requests', async () => {
    const script = `import { test, expect } from '@playwright/test'
      import { markCheckAsDegraded } from '@checkly/playwright-helpers'
      test('items', async ({ request }) => {
        const answer = await test.step('ask', () => request.get('{site}/api/items'))
        const { items }: { items: string[] } = await answer.json()
        expect(items).toContain('ink')
        // In colours, the Node.js of a runtime looks for names of packages in the stack.
        await request.get('http://127.0.0.1:1/').catch((error) => console.log(error))
      })`
    const { failures, observed } = await run(multistep, id, script)
    expect(failures).toEqual([])
    expect(observed.playwright).toBe(PLAYWRIGHT[id])
    expect(observed.network).toMatchObject([
      { url: `${site.url}/api/items`, status: 200 },
      { url: 'http://127.0.0.1:1/' },
    ])
    expect(observed.tests[0]?.steps.map(({ title }) => title)).toContain('ask')
  })

  describe.skipIf(why !== undefined)(`with Chromium ${why ?? ''}`, () => {
    test.each([
      ['a module of playwright', `import { chromium } from 'playwright'`],
      ['CommonJS of playwright', `const { chromium } = require('playwright')`],
      ['CommonJS of playwright-core', `const { chromium } = require('playwright-core')`],
    ])('a plain script starts it by %s, and its pages are watched', async (_, head) => {
      const work = `const browser = await chromium.launch()\n  ${PAGE}`
      const isModule = head.startsWith('import')
      const script = isModule ? `${head}\n${work}` : `${head}\nvoid (async () => {\n${work}\n})()`
      const { failures, observed } = await run(browser, id, script)
      expect(failures).toEqual([])
      expect(observed.console).toContainEqual({ type: 'stdout', text: 'Shop' })
      expect(observed.network.map(({ url }) => url)).toContain(`${site.url}/`)
      expect(observed.pages[0]?.vitals[0]?.url).toBe(`${site.url}/`)
    })

    test('a test that fails reports its line and leaves a trace', async () => {
      const script = `const { test, expect } = require('@playwright/test')
        test('shop', async ({ page, browser }) => {
          await (await browser.newContext()).close()
          await page.goto('{site}/noisy')
          await expect(page.locator('h1')).toHaveText('Closed', { timeout: 500 })
        })`
      const { failures, artifacts, observed } = await run(browser, id, script)
      expect(failures).toMatchObject([{ code: 'SCRIPT_FAILED', details: { line: 5 } }])
      const titles = observed.tests[0]?.steps.map(({ title }) => title) ?? []
      expect(titles.filter((title) => title === '' || title.includes('<anonymous>'))).toEqual([])
      expect(artifacts).toEqual(expect.arrayContaining(['test-failed-1.png', 'trace.zip']))
      expect(observed.pages[0]?.console).toMatchObject(
        expect.arrayContaining([expect.objectContaining({ text: 'said by the page' })]),
      )
    })
  })
})
