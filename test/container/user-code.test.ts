// Aim: user code runs in the whole image with the intended restrictions: without any capability, on a read-only root,
// under Docker's own profile. A browser, a script, a suite on each engine; and a run that needs more memory than the
// container has.
import { cpSync, mkdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Result } from '../../src/contract/result.ts'
import { type ContainerLine, startContainer } from '../support/container/contained.ts'
import { agentIn, platformFor } from '../support/container/contained-agent.ts'
import { needImages } from '../support/container/images.ts'
import { suiteProject } from '../support/suites/suite-runs.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

needImages('agent')

const MEBIBYTE = 1024 * 1024
const ENGINES = ['node@22', 'node@24', 'node@26', 'bun@1.3']

const BROWSER = `
const { test, expect } = require('@playwright/test')
test('a page', async ({ page }) => {
  await page.setContent('<h1>Hello</h1>')
  await expect(page.locator('h1')).toHaveText('Hello')
  await page.screenshot({ path: 'hello.png' })
})`
const MULTI_STEP = `
const { test, expect } = require('@playwright/test')
test('two requests', async ({ request }) => {
  for (const path of ['health', '-/liveness']) {
    expect((await request.get('http://127.0.0.1:8081/' + path)).status()).toBe(200)
  }
})`
const GREEDY = `const all = []; for (;;) all.push(Buffer.alloc(16 * 1024 * 1024, 1))`
const GREEDY_PAGE = `
const { test } = require('@playwright/test')
test('a page', async ({ page }) => {
  await page.evaluate(() => {
    const all = []
    for (;;) all.push(new Uint8Array(16 * 1024 * 1024).fill(1))
  })
})`
const SUITE = {
  'package.json': '{ "private": true }',
  'playwright.config.ts': `export default { workers: 1, projects: [{ name: 'chromium' }] }`,
  'a.spec.ts': `import { expect, test } from '@playwright/test'
test('a page', async ({ page }) => {
  await page.setContent('<h1>Hello</h1>')
  await expect(page.locator('h1')).toHaveText('Hello')
})
test('no page', () => expect(1 + 1).toBe(2))`,
}

/** A folder with the suite and a monitors file that runs it on every engine. */
function suites(): string {
  const folder = join(temporaryFolder(), 'monitors')
  mkdirSync(folder, { mode: 0o755 })
  const project = suiteProject(SUITE)
  const modules = realpathSync(join(project, 'node_modules'))
  rmSync(join(project, 'node_modules'))
  cpSync(project, join(folder, 'shop'), { recursive: true })
  cpSync(modules, join(folder, 'shop/node_modules'), { recursive: true })
  const monitors = ENGINES.map((name) => {
    const [engine, version] = name.split('@')
    return `  - { name: '${name}', type: PLAYWRIGHT, every: 10m, codeBundlePath: ./shop, engine: ${engine}, engineVersion: '${version}' }\n`
  })
  writeFileSync(join(folder, 'monitors.yaml'), `monitors:\n${monitors.join('')}`)
  return folder
}

/** A monitor of a script, as often as it may run. */
const scripted = (checkType: string, script: string) => ({
  checkType,
  script,
  frequency: 1,
  frequencyOffset: undefined,
  request: undefined,
})

const isResult = (line: ContainerLine): line is ContainerLine & Result => 'verdict' in line

describe('in the whole image', () => {
  test('a browser and a script run, and hand over their files', async () => {
    const { network, platform } = await platformFor()
    platform.give([scripted('BROWSER', BROWSER), scripted('MULTI_STEP', MULTI_STEP)])
    const agent = await agentIn(network, platform, { image: 'agent' })
    const [page, requests] = await Promise.all(
      ['0', '1'].map((at) => platform.result(({ monitorId }) => monitorId.endsWith(at))),
    )
    expect(page).toMatchObject({ verdict: 'passed' })
    expect(requests).toMatchObject({ verdict: 'passed' })
    expect(platform.syncs[0]?.agent).toMatchObject({
      image: 'agent',
      runtimes: ['2026.04'],
      engines: expect.arrayContaining(ENGINES) as unknown,
    })
    expect(await agent.stop()).toMatchObject({ code: 0 })
  })

  test('a suite runs on every engine', async () => {
    const once = await startContainer({
      image: 'agent',
      network: 'none',
      files: { '/monitors': suites() },
      command: ['check', '--json', '/monitors/monitors.yaml'],
    })
    expect(await once.ended).toBe(0)
    const results = once.lines.filter(isResult)
    expect(
      results.map(({ monitorName, verdict }) => `${monitorName} ${verdict}`).toSorted(),
    ).toEqual(ENGINES.toSorted().map((name) => `${name} passed`))
  })

  test.each([
    ['a script', scripted('MULTI_STEP', GREEDY)],
    ['a page of a test, which then fails', scripted('BROWSER', GREEDY_PAGE)],
  ])(
    'where the memory of the container runs out in %s, that is what the result says',
    async (_, one) => {
      const { network, platform } = await platformFor()
      platform.give([one, scripted('MULTI_STEP', MULTI_STEP)])
      const agent = await agentIn(network, platform, {
        image: 'agent',
        memoryBytes: 1024 * MEBIBYTE,
      })
      const [greedy, modest] = await Promise.all(
        ['0', '1'].map((at) => platform.result(({ monitorId }) => monitorId.endsWith(at))),
      )
      expect(greedy).toMatchObject({
        verdict: 'errored',
        failures: expect.arrayContaining([
          expect.objectContaining({ code: 'RUN_OUT_OF_MEMORY' }),
        ]) as unknown,
      })
      expect(modest).toMatchObject({ verdict: 'passed' })
      // The agent has not restarted.
      expect(new Set(platform.syncs.map((said) => said.agent.instance)).size).toBe(1)
      expect(await agent.stop()).toMatchObject({ code: 0 })
    },
  )
})
