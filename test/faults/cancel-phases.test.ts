// Runs of user code that are cancelled at every phase, through every interface. The code gets a signal within a
// second, nothing of it runs after five, and the recorded part arrives as `cancelled`.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { RunDetail } from '../../src/contract/api/run.ts'
import { startVedette } from '../support/platform/platform-process.ts'
import { ScriptFleet } from '../support/scripts/script-fleet.ts'
import { startHttpServer, type TestServer } from '../support/test-server.ts'

const ASKED_MS_MAX = 1_000
const GONE_MS_MAX = 5_000
/** Existing files are prepared after that, which is slow on a busy machine. */
const ENDED_MS_MAX = 15_000

let scene: ScriptFleet
let site: TestServer
/** Time of the last request of each path; milliseconds since the Unix epoch. */
const visits = new Map<string, number>()

beforeAll(async () => {
  site = await startHttpServer((request, response) => {
    const path = request.url ?? ''
    visits.set(path, Date.now())
    if (path.startsWith('/unresponsive')) return
    response.setHeader('content-type', 'text/html')
    response.end('<h1>Shop</h1>')
  })
  scene = await ScriptFleet.start()
})
afterEach(() => {
  scene.proxy.fault = () => undefined
})
afterAll(async () => {
  await scene.close()
  await site.close()
})

const siteUrl = (path: string) => `http://${site.authority}${path}`
const visited = (path: string) => () => visits.has(path)

/** Code that requests a path of the site on a signal, and continues. */
const visitOn = (signal: string, path: string) =>
  `process.on('${signal}', () => require('http').get('${siteUrl(path)}').on('error', () => {}));`

/** A way to cancel; resolves when the cancellation is accepted. */
type Canceller = (run: string) => Promise<unknown>

const byApi: Canceller = (run) => scene.fleet.api('POST', `/v1/runs/${run}/cancel`)
const byCommand: Canceller = async (run) => {
  const cancelling = startVedette(['cancel', run], scene.fleet.commandSettings())
  expect(await cancelling.ended).toMatchObject({ code: 0 })
}

interface Phase {
  monitor: () => Promise<string>
  /** The moment of the cancellation. */
  moment: (monitorId: string, runId: string) => unknown
  /** The path that the code requests on its signal. */
  asked?: string
  cancel?: Canceller
  expectRun?: (run: RunDetail) => void
}

const suite = (spec: string, more: Record<string, unknown> = {}, config = '') =>
  scene.suite(
    {
      'package.json': '{"name":"shop-tests"}',
      'playwright.config.js': `${config};module.exports = { retries: 0, workers: 1 }`,
      'shop.spec.js': `const { test, expect } = require('@playwright/test');${spec}`,
    },
    more,
  )
const browser = (script: string) => scene.monitor('BROWSER', { script })
const inPhase = (phase: string) => async (monitorId: string, runId: string) =>
  (await scene.run(monitorId, runId)).progress?.phase === phase
const browserStarts = () => scene.alive().some((line) => line.includes('--type=zygote'))

const PASSES = `test('first', async () => {});`
const WAITS = (path: string) =>
  `test('second', async ({ page }) => { await page.goto('${siteUrl(path)}') });`

/** The tests of a suite in the result. */
function testsOf({ result }: RunDetail): [string, string][] {
  const { tests = [] } = (result?.observed ?? {}) as {
    tests?: { title: string; outcome: string }[]
  }
  return tests.map(({ title, outcome }) => [title, outcome])
}

const PHASES: Record<string, Phase> = {
  'a suite whose bundle is on its way': {
    async monitor() {
      const id = await suite(PASSES)
      const arrives = Promise.withResolvers<void>()
      scene.proxy.fault = ({ url }) => {
        if (url?.startsWith('/agent/v1/bundles/') !== true) return undefined
        visits.set('/bundle', Date.now())
        return { kind: 'hold', until: arrives.promise }
      }
      return id
    },
    moment: visited('/bundle'),
  },
  'a suite whose packages are being installed, by a command that ignores signals': {
    monitor: () =>
      suite(PASSES, {
        installCommand: `exec node -e "${visitOn('SIGTERM', '/asked/install').replaceAll('"', '\\"')}process.on('SIGINT', () => {});require('http').get('${siteUrl('/unresponsive/install')}')"`,
      }),
    moment: visited('/unresponsive/install'),
    asked: '/asked/install',
    cancel: byCommand,
  },
  'a suite, in a test': {
    monitor: () =>
      suite(PASSES + WAITS('/unresponsive/suite'), {}, visitOn('SIGINT', '/asked/test')),
    moment: visited('/unresponsive/suite'),
    asked: '/asked/test',
    cancel: byCommand,
    expectRun(run) {
      expect(testsOf(run)).toEqual([
        ['first', 'expected'],
        ['second', expect.stringMatching(/skipped|unfinished/)],
      ])
      expect(run.artifacts.map(({ name }) => name)).toContain('junit.xml')
    },
  },
  'a suite that a shell starts, in a test': {
    monitor: () =>
      suite(
        PASSES + WAITS('/unresponsive/shell'),
        { testCommand: 'true && npx playwright test && true' },
        visitOn('SIGINT', '/asked/shell'),
      ),
    moment: visited('/unresponsive/shell'),
    asked: '/asked/shell',
    expectRun: (run) => expect(testsOf(run)[0]).toEqual(['first', 'expected']),
  },
  'a suite that ignores signals': {
    monitor: () =>
      suite(`${PASSES} test('second', async ({ request }) => {
        await request.get('${siteUrl('/deaf')}');
        for (;;);
      })`),
    moment: visited('/deaf'),
    expectRun: (run) => expect(testsOf(run)[0]).toEqual(['first', 'expected']),
  },
  'a suite whose files are being made ready': {
    monitor: () =>
      suite(`test('first', async ({}, info) => {
        const { writeFileSync } = require('fs');
        const line = 'authorization: bearer abcdefgh and so on, which takes its time \\n';
        writeFileSync(info.outputPath('log.txt'), line.repeat(2_000_000));
        await info.attach('log', { path: info.outputPath('log.txt') });
      })`),
    moment: inPhase('upload'),
    expectRun(run) {
      expect(testsOf(run)).toEqual([['first', 'expected']])
      expect(run.artifacts.map(({ name }) => name)).toContain('results.json')
      expect(run.result?.observed?.['artifactsLeftOut']).toContainEqual(
        expect.stringMatching(/log.*cancelled/),
      )
    },
  },
  'a browser monitor whose browser starts': {
    monitor: () =>
      browser(`const { chromium } = require('playwright');
        ${visitOn('SIGINT', '/asked/launch')}
        (async () => { const b = await chromium.launch(); const p = await b.newPage(); await p.goto('${siteUrl('/unresponsive/x')}') })()`),
    moment: browserStarts,
    asked: '/asked/launch',
  },
  'a browser monitor on a page, deaf to signals': {
    monitor: () =>
      browser(`const { chromium } = require('playwright');
        ${visitOn('SIGINT', '/asked/page')} process.on('SIGTERM', () => {});
        (async () => {
          console.log('began');
          const b = await chromium.launch({ handleSIGINT: false }); const p = await b.newPage();
          await p.goto('${siteUrl('/unresponsive/page')}', { timeout: 0 })
        })()`),
    moment: visited('/unresponsive/page'),
    asked: '/asked/page',
    cancel: byCommand,
    expectRun: (run) =>
      expect(run.result?.observed).toMatchObject({ console: [{ type: 'stdout', text: 'began' }] }),
  },
  'a multistep monitor in a step': {
    monitor: () =>
      scene.monitor('MULTI_STEP', {
        script: `const { test } = require('@playwright/test');
          test('api', async ({ request }) => {
            await test.step('one', () => request.get('${siteUrl('/')}'));
            await test.step('two', () => request.get('${siteUrl('/unresponsive/step')}'));
          })`,
      }),
    moment: visited('/unresponsive/step'),
    expectRun: (run) =>
      expect(run.result?.observed).toMatchObject({
        tests: [
          {
            title: 'api',
            steps: expect.arrayContaining([expect.objectContaining({ title: 'one' })]),
          },
        ],
      }),
  },
}

test.each(Object.entries(PHASES))('%s ends in time', async (_, phase) => {
  const monitorId = await phase.monitor()
  const runId = await scene.ask(monitorId)
  await reached(() => phase.moment(monitorId, runId), 90_000).catch(async (error: unknown) => {
    const run = JSON.stringify(await scene.run(monitorId, runId))
    await byApi(runId)
    throw new Error(run.slice(0, 2000), { cause: error })
  })
  await (phase.cancel ?? byApi)(runId)
  const cancelledAt = await cancelAskedAt(runId)
  await reached(() => scene.alive().length === 0, GONE_MS_MAX * 2)
  const goneMs = Date.now() - cancelledAt
  const run = await scene.finished(monitorId, runId, ENDED_MS_MAX * 2)
  const endedMs = Date.parse(run.finishedAt ?? '') - cancelledAt
  const askedAt = phase.asked === undefined ? cancelledAt : (visits.get(phase.asked) ?? Infinity)
  const askedMs = askedAt - cancelledAt
  expect(run).toMatchObject({ verdict: 'cancelled', cancelRequested: true })
  phase.expectRun?.(run)
  expect(askedMs).toBeGreaterThan(-100)
  expect(askedMs).toBeLessThan(ASKED_MS_MAX)
  expect(goneMs).toBeLessThan(GONE_MS_MAX)
  expect(endedMs).toBeLessThan(ENDED_MS_MAX)
})

/** Time at which the platform received the cancellation. Milliseconds since the Unix epoch. */
async function cancelAskedAt(runId: string): Promise<number> {
  const [row] = await scene.fleet.database.query<{ at: number }>(
    'select (extract(epoch from cancel_asked_at) * 1000)::float8 as at from runs where id = $1',
    [runId],
  )
  return row?.at ?? 0
}

/** Polls at a short interval: some moments are brief. */
async function reached(isReached: () => unknown, ms: number): Promise<void> {
  const until = Date.now() + ms
  while ((await isReached()) !== true) {
    if (Date.now() > until) throw new Error('the moment did not come')
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}
