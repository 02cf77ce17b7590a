// Chromium keeps its own sandbox, whatever a suite or a script says of the browser that it launches.
import { afterAll, describe, expect, test } from 'vitest'
import { browser } from '../../src/monitors/browser/index.ts'
import { findChromium } from '../../src/scripts/chromium.ts'
import { missing, withoutNamespaces } from '../support/needs.ts'
import { testScriptHost } from '../support/scripts/script-host.ts'
import { runScriptMonitor } from '../support/scripts/script-runs.ts'
import { runFolder, suiteHost, suiteProject } from '../support/suites/suite-runs.ts'

const host = suiteHost()
const scriptHost = testScriptHost()
afterAll(() => {
  host.close()
  scriptHost.close()
})

const why = missing('chromium') ?? withoutNamespaces()
const program = JSON.stringify(await findChromium(undefined))

/** Browsers that this process has started: how many there are, and how many of them were started without their sandbox. */
const LOOK = `const { readdirSync, readFileSync } = require('node:fs')
const browsers = readdirSync('/proc').filter((one) => /^\\d+$/.test(one)).map((one) => {
  try {
    const [, parent] = readFileSync('/proc/' + one + '/stat', 'utf8').split(') ')[1].split(' ')
    if (Number(parent) !== process.pid) return []
    return readFileSync('/proc/' + one + '/cmdline', 'utf8').split('\\0')
  } catch { return [] }
}).filter((all) => all.some((one) => one.startsWith('--remote-debugging-')))
console.log('SAW' + browsers.length + ' ' + browsers.filter((all) => all.includes('--no-sandbox')).length)\n`
const PAGE = `test('looks', async ({ page }) => { await page.goto('about:blank'); look() })`

describe.skipIf(why !== undefined)(`with Chromium ${why ?? ''}`, () => {
  const OWN_LAUNCH = `launchOptions: { executablePath: ${program} }`
  const NONE_OF_IT = `use: { launchOptions: { executablePath: ${program}, chromiumSandbox: false } }`
  const LAUNCHES = `test('launches', async ({ playwright }) => {
    const one = await playwright.chromium.launch({ executablePath: ${program} })
    look()
    await one.close()
  })`

  test.each([
    ['a program of the test file', '', `test.use({ ${OWN_LAUNCH} })\n${PAGE}`],
    ['a test that launches by itself', '', LAUNCHES],
    ['a request for none of it', NONE_OF_IT, PAGE],
    ['an argument against it', `use: { launchOptions: { args: ['--no-sandbox'] } }`, PAGE],
  ])('a suite keeps the sandbox with %s', async (_, config, spec) => {
    const folder = suiteProject({
      'package.json': '{}',
      'playwright.config.js': `module.exports = { workers: 1, retries: 0, ${config} }`,
      'a.spec.js': `const { test } = require('@playwright/test')\nconst look = () => {\n${LOOK}}\n${spec}`,
    })
    const run = await runFolder(host, folder)
    expect(run.failures).toEqual([])
    const { tests } = run.observed as { tests: { attempts: { output: string }[] }[] }
    expect(tests[0]?.attempts[0]?.output).toMatch(/SAW[1-9]\d* 0\n/)
  })

  test('a plain script keeps it with a program of its own', async () => {
    const script = `const { chromium } = require('playwright')
      void (async () => {
        const one = await chromium.launch({ executablePath: ${program} })
        ${LOOK}
        await one.close()
      })()`
    const { failures, observed } = await runScriptMonitor(browser, { script }, { host: scriptHost })
    expect(failures).toEqual([])
    const said = observed.console.map(({ text }) => text).join('\n')
    expect(said).toMatch(/SAW[1-9]\d* 0(?:\n|$)/)
  })
})
