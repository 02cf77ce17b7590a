// Aim: where no video can be made, a suite says so when a video would have been kept, and only then.
import { afterAll, expect, test, vi } from 'vitest'
import { runFolder, suiteHost, suiteProject } from '../support/suites/suite-runs.ts'

// Whatever this machine has.
vi.mock(import('../../src/scripts/chromium.ts'), async (original) => {
  const chromium = await original()
  const findProgram = (name: string, folders?: readonly string[]) =>
    name === 'ffmpeg' ? Promise.resolve(undefined) : chromium.findProgram(name, folders)
  return { ...chromium, findProgram }
})

const host = suiteHost()
afterAll(() => host.close())

const SHOWS = `test('shows', async ({ page }) => { await page.goto('about:blank') })`
const FLAKY = `test('flaky', async ({ page }, info) => {
  await page.goto('about:blank'); expect(info.retry).toBe(1)
})`
const NO_PAGE = `test('has no page', async ({ request }) => { expect(request).toBeDefined() })`
/** One of two projects is filmed. */
const PROJECTS = `projects: [
  { name: 'filmed', use: { video: { mode: 'on', size: { width: 640, height: 480 } } } },
  { name: 'plain', use: { video: 'off' } },
]`
const ONLY = (name: string) => ({ testCommand: `npx playwright test --project ${name}` })

test.each<
  [string, spec: string, config: string, isSaid: boolean, options?: Record<string, unknown>]
>([
  ['says it when a test was tried again', FLAKY, '', true],
  ['says nothing of tests without a page', NO_PAGE, `use: { video: 'on' }`, false],
  ['says nothing where no failure had one', SHOWS, `use: { video: 'retain-on-failure' }`, false],
  ['says nothing of projects that did not run', SHOWS, PROJECTS, false, ONLY('plain')],
  ['says it of a project that did', SHOWS, PROJECTS, true, ONLY('filmed')],
])('%s', async (_, spec, config, isSaid, options = {}) => {
  const folder = suiteProject({
    'package.json': '{"private":true}',
    'playwright.config.js': `module.exports = { workers: 1, retries: 1, ${config} }`,
    'a.spec.js': `const { test, expect } = require('@playwright/test');${spec}`,
  })
  const { observed, codes } = await runFolder(host, folder, options)
  expect(codes).toEqual([])
  const notes = (observed['notes'] ?? []) as string[]
  expect(notes.some((note) => note.startsWith('videos are left out'))).toBe(isSaid)
})
