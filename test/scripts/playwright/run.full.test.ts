// Playwright's runner in the sandbox, with the system's Chromium: reports while it runs, and ends in order.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { findChromium } from '../../../src/scripts/chromium.ts'
import { findPlaywrightCore } from '../../../src/scripts/playwright/browsers.ts'
import { runPlaywright, type PlaywrightOrder } from '../../../src/scripts/playwright/run.ts'
import type { InstalledTool } from '../../../src/scripts/toolchains.ts'
import { startConnectProxy } from '../../support/network/connect-proxy.ts'
import { fixedResolver, testContext } from '../../support/monitors/monitor-context.ts'
import { missing } from '../../support/needs.ts'
import { ROOMY } from '../../support/sandbox/sandboxed.ts'
import { testScriptHost } from '../../support/scripts/script-host.ts'
import { startSmallSite } from '../../support/monitors/small-site.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const host = testScriptHost()
const why = missing('chromium')
const site = await startSmallSite()

const CONFIGURATION = `module.exports = {
  use: { proxy: JSON.parse(process.env.VEDETTE_PROXY ?? 'null') ?? undefined, trace: 'retain-on-failure' },
  reporter: 'null',
}`

async function run(spec: string, options: Partial<PlaywrightOrder> = {}) {
  const runtime = (await host.tools.find('runtime', '2026.04')) as InstalledTool
  const folder = join(temporaryFolder(), 'run')
  mkdirSync(folder)
  writeFileSync(join(folder, 'playwright.config.js'), CONFIGURATION)
  writeFileSync(join(folder, 'a.spec.js'), spec.replaceAll('{site}', site.url))
  const core = await findPlaywrightCore(runtime.folder)
  const chromium = await findChromium(undefined)
  return runPlaywright({
    host,
    context: testContext(),
    folder,
    command: runtime.program,
    args: [join(runtime.folder, 'node_modules/@playwright/test/cli.js'), 'test'],
    environment: { NODE_PATH: join(runtime.folder, 'node_modules') },
    readable: [runtime.folder, join(runtime.folder, 'node_modules')],
    browser: core === undefined || chromium === undefined ? undefined : { chromium, core },
    // More time than a test has: none ends by it.
    limits: { ...ROOMY, wallMs: 600_000 },
    ...options,
  })
}

const HEAD = `const { test, expect } = require('@playwright/test')\n`

describe.skipIf(why !== undefined)(`with a browser ${why ?? ''}`, () => {
  test('a page is opened straight, by no proxy, with Chromium’s own sandbox on', async () => {
    const events: string[] = []
    const { end, report, refusals } = await run(
      `${HEAD}test('shop', async ({ page }) => {
        await page.goto('{site}/')
        await test.step('look', () => expect(page.locator('#stock')).toHaveText('in stock'))
        await page.goto('chrome://sandbox')
        console.log(await page.locator('#evaluation').innerText())
        console.log('proxies:', Object.keys(process.env).filter((one) => /proxy/i.test(one)).join())
      })`,
      { onEvent: ({ event }) => events.push(event) },
    )
    expect(end).toMatchObject({ outcome: 'exited', exitCode: 0, leftBehind: 0 })
    expect(refusals).toEqual([])
    expect(report.stats).toMatchObject({ expected: 1, total: 1 })
    const { output } = report.tests[0]?.attempts[0] ?? {}
    expect(output).toContain('You are adequately sandboxed.')
    expect(output).toContain('proxies: \n')
    expect(report.tests[0]?.attempts[0]?.steps.map(({ title }) => title)).toContain('look')
    expect(events.at(0)).toBe('begin')
    expect(events.at(-1)).toBe('finish')
  })

  test('with a proxy of the location all goes through it, though loopback is blocked', async () => {
    await using through = await startConnectProxy({ names: { 'shop.test': '127.0.0.1' } })
    const context = testContext({
      proxyUrl: `http://127.0.0.1:${through.port}`,
      resolver: fixedResolver({ 'shop.test': ['192.0.2.80'] }),
    })
    const { end, report } = await run(
      `${HEAD}test('shop', async ({ page, request }) => {
        const shop = '{site}/'.replace('127.0.0.1', 'shop.test')
        await page.goto(shop)
        expect((await request.get(shop)).status()).toBe(200)
        expect((await page.goto('http://169.254.169.254/')).status()).toBe(403)
      })`,
      { host: testScriptHost({ blocked: ['127.0.0.0/8'], isolation: 'require' }), context },
    )
    expect(report.tests[0]?.attempts[0]?.errors).toEqual([])
    expect(end.blocked).toEqual([])
    const line = `CONNECT shop.test:${new URL(site.url).port}`
    expect(through.requestLines.filter((one) => one === line).length).toBeGreaterThan(1)
  })
})

test('a fault of the agent in onEvent ends the run, and is reported as such', async () => {
  const mistake = new Error('a mistake of ours')
  const spec = `${HEAD}test('one', async () => { await new Promise(() => {}) })`
  const onEvent = () => {
    throw mistake
  }
  await expect(run(spec, { browser: undefined, onEvent })).rejects.toBe(mistake)
})

test.each([
  ['a link to a file of ours', `symlinkSync('/etc/passwd', events)`],
  ['a pipe', `execFileSync('mkfifo', [events])`],
])('a run with %s in the place of its events ends with what came before', async (_, put) => {
  const spec = `${HEAD}const { rmSync, symlinkSync } = require('node:fs')
    const { execFileSync } = require('node:child_process')
    test('one', () => {
      const events = process.env.VEDETTE_EVENTS
      rmSync(events)
      ${put}
    })`
  const { end, report } = await run(spec, { browser: undefined })
  expect(end.outcome).toBe('exited')
  expect(report.tests).toHaveLength(1)
})
