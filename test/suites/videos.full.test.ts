// Aim: where no video can be made, a suite says so when a video would have been kept, and only then.
import { afterAll, expect, test, vi } from 'vitest'
import { runFolder, suiteHost, suiteProject } from '../support/suites/suite-runs.ts'

// Whatever this machine has.
vi.mock(import('../../src/scripts/chromium.ts'), async (original) => {
  const chromium = await original()
  const findProgram = (name: string) =>
    name === 'ffmpeg' ? Promise.resolve(undefined) : chromium.findProgram(name)
  return { ...chromium, findProgram }
})

const host = suiteHost()
afterAll(() => host.close())

const SHOWS = `test('shows', async ({ page }) => { await page.goto('about:blank') })`
const FLAKY = `test('flaky', async ({ page }, info) => {
  await page.goto('about:blank'); expect(info.retry).toBe(1)
})`
const FAILS = `test('fails', async ({ page }) => { await page.goto('about:blank'); expect(1).toBe(2) })`
const NO_PAGE = `test('has no page', async ({ request }) => { expect(request).toBeDefined() })`
const PROJECTS = `projects: [
  { name: 'filmed', use: { video: { mode: 'on', size: { width: 640, height: 480 } } } },
  { name: 'plain', use: { video: 'off' } },
]`

test.each<[string, { spec: string; config?: string; command?: string; isSaid: boolean }]>([
  ['says nothing when all pass at once', { spec: SHOWS, isSaid: false }],
  ['says it when a test was tried again', { spec: FLAKY, isSaid: true }],
  [
    'says it where each test is to have one',
    { spec: SHOWS, config: `use: { video: 'on' }`, isSaid: true },
  ],
  [
    'says nothing of tests without a page',
    { spec: NO_PAGE, config: `use: { video: 'on' }`, isSaid: false },
  ],
  [
    'says nothing where a failure would have had one, and there was none',
    { spec: SHOWS, config: `use: { video: 'retain-on-failure' }`, isSaid: false },
  ],
  [
    'says it where a failure would have had one',
    { spec: FAILS, config: `retries: 0, use: { video: 'retain-on-failure' }`, isSaid: true },
  ],
  [
    'says nothing where none is wanted',
    { spec: FLAKY, config: `use: { video: 'off' }`, isSaid: false },
  ],
  [
    'says nothing of projects that did not run',
    {
      spec: SHOWS,
      config: PROJECTS,
      command: 'npx playwright test --project plain',
      isSaid: false,
    },
  ],
  [
    'says it of a project that did',
    {
      spec: SHOWS,
      config: PROJECTS,
      command: 'npx playwright test --project filmed',
      isSaid: true,
    },
  ],
])('%s', async (_, { spec, config = '', command, isSaid }) => {
  const folder = suiteProject({
    'package.json': '{"private":true}',
    'playwright.config.js': `module.exports = { workers: 1, retries: 1, ${config} }`,
    'a.spec.js': `const { test, expect } = require('@playwright/test');${spec}`,
  })
  const options = command === undefined ? {} : { testCommand: command }
  const { observed, codes } = await runFolder(host, folder, options)
  expect(codes).toEqual(spec === FAILS ? ['TESTS_FAILED'] : [])
  const notes = (observed['notes'] ?? []) as string[]
  expect(notes.some((note) => note.startsWith('videos are left out'))).toBe(isSaid)
})
