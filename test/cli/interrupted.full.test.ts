// Aim: Ctrl-C and SIGTERM of `vedette test` and `vedette check` in every phase of a run.
import { readdirSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import {
  commandLine,
  startVedette,
  type VedetteProcess,
} from '../support/platform/platform-process.ts'
import { processesIn } from '../support/processes-in.ts'
import { installPlaywright, scriptTools } from '../support/scripts/script-fleet.ts'
import { projectFolder } from '../support/scripts/script-host.ts'
import { suiteProject } from '../support/suites/suite-runs.ts'
import { temporaryFile, temporaryFolder } from '../support/temporary-folder.ts'
import { startHttpServer, type TestServer } from '../support/test-server.ts'

// Several times what each takes, since a machine may be busy.
const SAID_MS_MAX = 5_000
const GONE_MS_MAX = 20_000
/** A repeated signal counts only after this time. */
const ECHO_MS = 400
const CODES = { SIGINT: 130, SIGTERM: 143 }

let site: TestServer
let tools: string
const visits = new Set<string>()
beforeAll(async () => {
  tools = scriptTools()
  site = await startHttpServer((request, response) => {
    visits.add(request.url ?? '')
    if (request.url?.startsWith('/silent') !== true) response.end('<h1>Shop</h1>')
  })
})
afterAll(() => site.close())

const siteUrl = (path: string) => `http://${site.authority}${path}`
const visited = (path: string) => () => visits.has(path)
/** Processes of runs, found by the home folder in their environment. */
const runsIn = (work: string) => processesIn(join(work, 'vedette-run-'))
const foldersIn = (work: string) =>
  readdirSync(work).filter((name) => name.startsWith('vedette-run-'))

/** The phase of the interruption. */
type Moment = (work: string, started: VedetteProcess) => boolean

const browserStarts: Moment = (work) =>
  runsIn(work).some((pid) => commandLine(Number(pid)).join(' ').includes('--type=zygote'))
const filesAreMadeReady: Moment = (work, { stderr }) =>
  stderr.includes('✓') && runsIn(work).length === 0

interface Phase {
  signal: keyof typeof CODES
  args: () => string[]
  moment: Moment
  /** Expected on standard error or output at the end. */
  shows: RegExp[]
}

const deaf = `for (const one of ['SIGINT', 'SIGTERM']) process.on(one, () => {});`
const SUITE = {
  'package.json': '{"name":"shop-tests","private":true}',
  'playwright.config.js': 'module.exports = { retries: 0, workers: 1, timeout: 0 }',
}
const FIRST = `const { test } = require('@playwright/test'); test('first', async () => {});`
const ENGINE = ['--engine', 'node@24']
const suite = (spec: string) => {
  const folder = suiteProject({ ...SUITE, 'a.spec.js': FIRST + spec })
  return ['test', folder, '--no-install', ...ENGINE]
}
const page = (path: string) =>
  `test('second', async ({ page }) => { await page.goto('${siteUrl(path)}') });`
const LARGE = `test('large', async ({}, info) => {
  const line = 'authorization: bearer abcdefgh and so on, which takes its time \\n';
  require('fs').writeFileSync(info.outputPath('log.txt'), line.repeat(2_000_000));
  await info.attach('log', { path: info.outputPath('log.txt') });
});`
const installs = (path: string) => {
  const get = `require('http').get('${siteUrl(path)}')`
  const scripts = { preinstall: `exec node -e "${deaf}${get};setInterval(() => {}, 1e9)"` }
  const files = {
    ...SUITE,
    'package.json': JSON.stringify({ name: 'shop-tests', scripts }),
    'package-lock.json': '{"name":"shop-tests","lockfileVersion":3,"packages":{}}',
    'a.spec.js': FIRST,
  }
  return ['test', projectFolder(files), ...ENGINE]
}

const check = (...list: Record<string, unknown>[]) => {
  const monitors = list.map((one) => ({ every: '10m', ...one }))
  return ['check', temporaryFile('monitors.yaml', JSON.stringify({ monitors }))]
}

const PHASES: Record<string, Phase> = {
  '`test` while packages are installed, by a script that ignores signals': {
    signal: 'SIGINT',
    args: () => installs('/silent/install'),
    moment: visited('/silent/install'),
    shows: [/^CANCELLED: the run was interrupted$/m, /^cancelled: /m],
  },
  '`test` when its browser starts': {
    signal: 'SIGTERM',
    args: () => suite(page('/silent/start')),
    moment: browserStarts,
    shows: [/✓ .*first/, /^cancelled: 1 passed, 1 (?:unfinished|skipped), /m],
  },
  '`test` while files are made ready': {
    signal: 'SIGTERM',
    args: () => suite(LARGE),
    moment: filesAreMadeReady,
    shows: [/^left out: .*log.*cancelled/m, /^cancelled: 2 passed, /m, /^files: /m],
  },
  '`check` while packages are installed': {
    signal: 'SIGTERM',
    args: () =>
      check({
        name: 'Shop',
        type: 'PLAYWRIGHT',
        engine: 'node',
        engineVersion: '24',
        codeBundlePath: projectFolder({ ...SUITE, 'a.spec.js': FIRST }),
        installCommand: `${installPlaywright(tools)}; exec node -e "require('http').get('${siteUrl('/silent/check')}')"`,
      }),
    moment: visited('/silent/check'),
    shows: [/^cancelled +Shop/m],
  },
  '`check` on a page that ignores signals, after others have passed': {
    signal: 'SIGINT',
    args: () =>
      check(
        { name: 'Home', type: 'URL', request: { url: siteUrl('/') } },
        {
          name: 'Cart',
          type: 'BROWSER',
          script: `${deaf} const { chromium } = require('playwright');
            (async () => {
              const b = await chromium.launch({ handleSIGINT: false }); const p = await b.newPage();
              await p.goto('${siteUrl('/silent/cart')}', { timeout: 0 })
            })()`,
        },
        { name: 'Waits', type: 'MULTI_STEP', script: 'setInterval(() => {}, 1e9)' },
      ),
    moment: visited('/silent/cart'),
    shows: [/^passed +Home/m, /^cancelled +Cart/m, /^cancelled +Waits/m, /2 cancelled/],
  },
}

/** Starts the command and waits for the phase. */
async function startUntil({ args, moment }: Pick<Phase, 'args' | 'moment'>) {
  const work = temporaryFolder()
  const output = join(temporaryFolder(), 'output')
  const given = args()
  const more = given[0] === 'test' ? ['--output', output] : []
  const started = startVedette([...given, ...more], {
    TOOLS_DIR: tools,
    TMPDIR: work,
    SCRIPT_USER_ID: String(110_000 + (process.pid % 10_000) * 256),
  })
  let isOver = false
  void started.ended.then(() => (isOver = true))
  await reached(() => {
    if (isOver) throw new Error(`it ended before: ${started.stdout}${started.stderr}`)
    return moment(work, started)
  }, 120_000)
  return { work, started }
}

/** Polls often, since a phase may be short. */
const reached = (isReached: () => boolean, ms: number) =>
  eventually(isReached, { ms, everyMs: 10, what: 'the moment' })

const isGone = (work: string) => () =>
  processesIn(work).length === 0 && foldersIn(work).length === 0

test.each(Object.entries(PHASES))('%s', async (_, phase) => {
  const { work, started } = await startUntil(phase)
  started.kill(phase.signal)
  const said = reached(() => started.stderr.includes('repeat to stop immediately'), SAID_MS_MAX)
  const gone = reached(isGone(work), GONE_MS_MAX)
  const { code, stdout, stderr } = await started.ended
  await Promise.all([said, gone])
  expect(code).toBe(CODES[phase.signal])
  for (const pattern of phase.shows) expect(`${stderr}${stdout}`).toMatch(pattern)
})

test('a second Ctrl-C while packages are installed ends at once', async () => {
  const { work, started } = await startUntil({
    args: () => installs('/silent/twice'),
    moment: visited('/silent/twice'),
  })
  started.kill('SIGINT')
  await new Promise((resolve) => setTimeout(resolve, ECHO_MS))
  started.kill('SIGINT')
  const since = performance.now()
  // After the end of the run the signal's default action ends the process; a shell shows the same code for both.
  const { code, signal } = await started.ended
  expect(code ?? (signal && 128 + constants.signals[signal])).toBe(130)
  expect(performance.now() - since).toBeLessThan(SAID_MS_MAX)
  await eventually(isGone(work), { ms: GONE_MS_MAX, what: 'the end of all of it' })
})
