// Aim: a browser monitor reports its pages (console, errors, requests, vitals), stores screenshot and
// trace when it fails, ends within seconds when it is cancelled, and reaches nothing that is blocked.
import { readdirSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { browser } from '../../../src/monitors/browser/index.ts'
import { PLAYWRIGHT_ASK } from '../../../src/scripts/playwright/run.ts'
import { scriptSamples } from '../../../src/scripts/monitor.ts'
import { eventually } from '../../support/eventually.ts'
import { missing } from '../../support/needs.ts'
import { testScriptHost } from '../../support/scripts/script-host.ts'
import {
  runScriptMonitor,
  startScript,
  type ScriptOptions,
} from '../../support/scripts/script-runs.ts'
import { processesIn } from '../../support/processes-in.ts'
import { startSmallSite } from '../../support/monitors/small-site.ts'

const host = testScriptHost()
const site = await startSmallSite()
const why = missing('chromium')
const HEAD = `import { test, expect } from '@playwright/test'\n`

const written = (script: string) => script.replaceAll('{site}', site.url)

function run(
  script: string,
  definition: Record<string, unknown> = {},
  options: Partial<ScriptOptions> = {},
) {
  return runScriptMonitor(browser, { script: written(script), ...definition }, { host, ...options })
}

test('a missing browser is reported, with the remedy', async () => {
  const lent = testScriptHost({ chromiumPath: '/nowhere/chromium' })
  const { codes, failures } = await run(HEAD, {}, { host: lent })
  expect(codes).toEqual(['BROWSER_MISSING'])
  expect(failures[0]?.message).toContain('apt-get install chromium')
})

describe.skipIf(why !== undefined)(`with Chromium ${why ?? ''}`, () => {
  test('pages report their console, errors, requests and vitals', async () => {
    const { failures, observed, artifacts } = await run(`${HEAD}test('shop', async ({ page }) => {
      await page.goto('{site}/')
      await test.step('look', () => expect(page.locator('#stock')).toHaveText('in stock'))
      await page.locator('a').click()
      await expect(page.locator('p')).toHaveText('the next page')
      const broken = page.waitForEvent('pageerror')
      await page.goto('{site}/noisy', { waitUntil: 'networkidle' })
      await broken
    })`)
    expect(failures).toEqual([])
    expect(artifacts).toEqual([])
    const [page] = observed.pages
    const said = page?.console.find(({ type }) => type === 'log')
    expect([said?.text, page?.errors]).toMatchObject([
      'said by the page',
      [{ message: 'broken page' }],
    ])
    const visited = ['/', '/next', '/noisy'].map((path) => site.url + path)
    expect(page?.vitals.map(({ url }) => url)).toEqual(visited)
    expect(page?.vitals[0]?.ttfbMs).toBeGreaterThan(0)
    expect(page?.vitals[0]?.lcpMs).toBeGreaterThan(0)
    const entries = observed.network.map(({ url, status, type }) =>
      [url.slice(site.url.length), status, type].join(' '),
    )
    const expected = ['/ 200 document', '/picture.svg 200 image', '/missing 404 fetch']
    expect(entries).toEqual(expect.arrayContaining(expected))
    const samples = scriptSamples(observed as unknown as Record<string, unknown>)
    const passed = { name: 'probe_script_tests', value: 1, labels: { status: 'passed' } }
    expect(samples).toContainEqual(passed)
    expect(samples.map(({ labels }) => labels?.['vital'])).toContain('lcp')
    expect(observed.usage.peakMemoryBytes).toBeLessThan(1_073_741_824)
  })

  test('what is blocked is reached by no way', async () => {
    const before = site.requests.length
    const blocked = ['127.0.0.0/8']
    const { failures, observed } = await run(
      `${HEAD}test('shop', async ({ page, context, request }) => {
        const ends = []
        const go = async (way) => ends.push(await way().then(() => 'reached', () => 'refused'))
        await go(() => page.goto('{site}/').then((answer) => { if (answer.status() !== 200) throw 0 }))
        await go(() => context.request.get('{site}/').then(({ status }) => { if (status() !== 200) throw 0 }))
        await go(() => request.get('{site}/').then(({ status }) => { if (status() !== 200) throw 0 }))
        await go(() => fetch('{site}/').then(({ status }) => { if (status !== 200) throw 0 }))
        await go(() => page.evaluate((url) => new Promise((opened, failed) => {
          const socket = new WebSocket(url)
          socket.onopen = opened
          socket.onerror = failed
        }), '{site}/'.replace('http', 'ws')))
        console.log(ends.join(' '))
      })`,
      {},
      { host: testScriptHost({ blocked }), blocked },
    )
    expect(failures).toEqual([])
    expect(observed.console.at(-1)?.text).toBe('refused refused refused refused refused')
    expect(site.requests.length).toBe(before)
    expect(observed.refused?.[0]).toMatchObject({
      host: '127.0.0.1',
      code: 'ADDRESS_BLOCKED',
      network: '127.0.0.0/8',
    })
    expect(observed.notes?.join()).toMatch(/forbids 127\.0\.0\.1:\d+, which is in 127\.0\.0\.0\/8/)
  })

  test('what a run does not look at is said', async () => {
    const { observed } = await run(`${HEAD}test('shop', () => {})`, {
      sslCheckDomain: 'shop.example',
      snapshots: [{ key: 'a', path: 'a.png' }],
    })
    expect(observed.notes?.join()).toMatch(/sslCheckDomain is ignored.*snapshots are not/)
  })

  test('a run whose time ran out leaves a trace of the page that it waited for', async () => {
    // Playwright waits five seconds for a picture and writes its trace then, which takes longer on a busy machine.
    PLAYWRIGHT_ASK.lateGraceMs = 120_000
    const patient = { ...browser, overrunMsMax: 150_000 }
    const script = written(`${HEAD}test('shop', async ({ page }) => {
      test.setTimeout(0)
      await page.goto('{site}/next')
      await page.evaluate(() => {
        const request = new XMLHttpRequest()
        request.open('GET', '/api/items', false)
        request.send()
        for (;;);
      })
    })`)
    const before = site.requests.length
    const deadline = eventually(() => site.requests.slice(before).includes('GET /api/items'))
    const options = { host, deadline }
    const { codes, artifacts, abandoned } = await runScriptMonitor(patient, { script }, options)
    expect(codes).toEqual(['TIMEOUT_RUN'])
    expect(artifacts).toContain('trace.zip')
    expect(abandoned).toBe(false)
  })

  test('a cancelled run ends within five seconds, with nothing left and all it had seen', async () => {
    const script = written(`${HEAD}test('shop', async ({ page }) => {
      test.setTimeout(0)
      await page.goto('{site}/next')
      await page.evaluate(() => { for (;;); })
    })`)
    const before = site.requests.length
    const running = startScript(browser, { script }, { host })
    await expect.poll(() => site.requests.length).toBeGreaterThan(before)
    const askedAt = performance.now()
    running.cancel('enough')
    const { observation, abandoned } = await running.outcome
    expect(performance.now() - askedAt).toBeLessThan(5000)
    expect(abandoned).toBe(false)
    expect(observation.failures.map(({ code }) => code)).toEqual(['CANCELLED'])
    expect(observation.observed['network']).not.toEqual([])
    expect(readdirSync(running.workRoot)).toEqual([])
    expect(processesIn(running.workRoot)).toEqual([])
  })
})
