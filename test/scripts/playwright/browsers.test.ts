// Aim: the browser that Playwright finds is started with what the sandbox asks of it, and keeps what a script
// asked of it.
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, realpathSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { prepareBrowsers } from '../../../src/scripts/playwright/browsers.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

async function started(...given: string[]): Promise<string[]> {
  const folder = temporaryFolder()
  const chromium = join(folder, 'chromium')
  writeFileSync(chromium, '#!/bin/sh\nprintf "%s\\n" "RES_OPTIONS=$RES_OPTIONS" "$@"\n')
  chmodSync(chromium, 0o755)
  const [core, browsers] = [join(folder, 'core'), join(folder, 'browsers')]
  mkdirSync(core)
  writeFileSync(join(core, 'browsers.json'), JSON.stringify({ browsers: [] }))
  expect(await prepareBrowsers(browsers, core, { chromium })).toBe(true)
  const env = { PATH: process.env['PATH'] }
  return execFileSync(join(browsers, 'chromium'), given, { env }).toString().trim().split('\n')
}

test.each([
  ['1.48', [['chromium', '1140']], ['chromium-1140/chrome-linux/chrome']],
  [
    '1.50, which does not list its shell',
    [['chromium', '1155']],
    [
      'chromium-1155/chrome-linux/chrome',
      'chromium_headless_shell-1155/chrome-linux/headless_shell',
    ],
  ],
  [
    '1.58',
    [
      ['chromium', '1208'],
      ['chromium-headless-shell', '1209'],
    ],
    [
      'chromium-1208/chrome-linux64/chrome',
      'chromium_headless_shell-1209/chrome-headless-shell-linux64/chrome-headless-shell',
    ],
  ],
])('Playwright %s finds it where it looks', async (_, listed, places) => {
  const [core, browsers] = [temporaryFolder(), join(temporaryFolder(), 'browsers')]
  const list = { browsers: listed.map(([name, revision]) => ({ name, revision })) }
  writeFileSync(join(core, 'browsers.json'), JSON.stringify(list))
  expect(await prepareBrowsers(browsers, core, { chromium: '/usr/bin/true' })).toBe(true)
  for (const place of places) {
    expect(realpathSync(join(browsers, place))).toBe(join(browsers, 'chromium'))
  }
})

test('names are asked of the system, over TCP, and nothing is tried by datagrams', async () => {
  const argv = await started('--headless', 'about:blank')
  expect(argv).toContain('RES_OPTIONS=use-vc')
  expect(argv).toContain('--disable-quic')
  expect(argv.join()).toMatch(/--disable-features=AsyncDns\b/)
  expect(argv).toContain('--enable-features=EnableIPv6ReachabilityOverride')
  expect(argv.slice(-2)).toEqual(['--headless', 'about:blank'])
})

test('nobody is called of the browser’s own accord', async () => {
  const argv = await started('about:blank')
  expect(argv).toContainEqual(expect.stringMatching(/^--component-updater=.*127\.0\.0\.1:9/))
  const off = argv.find((arg) => arg.startsWith('--disable-features='))
  expect(off).toContain('NetworkTimeServiceQuerying')
  expect(off).toContain('AutofillServerCommunication')
})

test('features that a script turns off or on stay so, the last argument of each counting as ever', async () => {
  const argv = await started(
    '--disable-features=A',
    '--disable-features=B,C',
    '--enable-features=D',
    '--user-data-dir=/a b',
  )
  expect(argv.filter((arg) => /-features=/.test(arg))).toEqual([
    expect.stringMatching(/^--disable-features=B,C,AsyncDns,/),
    '--enable-features=D,EnableIPv6ReachabilityOverride',
  ])
  expect(argv.at(-1)).toBe('--user-data-dir=/a b')
})

const LAUNCHES = fileURLToPath(
  new URL('../../../src/scripts/playwright/browser-launches.cjs', import.meta.url),
)

/** What starts when code that has `browser-launches.cjs` starts this program with these arguments. */
async function startedBy(how: string, ...args: string[]): Promise<string[]> {
  const folder = temporaryFolder()
  const [mine, browsers] = [join(folder, 'my browser'), join(folder, 'browsers')]
  writeFileSync(mine, '#!/bin/sh\nprintf "%s\\n" "MINE $RES_OPTIONS" "$@"\n')
  chmodSync(mine, 0o755)
  mkdirSync(join(folder, 'core'))
  writeFileSync(join(folder, 'core', 'browsers.json'), JSON.stringify({ browsers: [] }))
  expect(await prepareBrowsers(browsers, join(folder, 'core'), { chromium: '/nowhere' })).toBe(true)
  const code = `require(${JSON.stringify(LAUNCHES)})()
    const { ${how} } = require('node:child_process')
    ${how}(${JSON.stringify(mine)}, ${JSON.stringify(args)}, { stdio: 'inherit' })`
  const env = { PATH: process.env['PATH'], PLAYWRIGHT_BROWSERS_PATH: browsers }
  const argv = execFileSync(process.execPath, ['-e', code], { env })
  return argv.toString().trim().split('\n')
}

const hasNamespaces = (() => {
  const ask = ['--user', '--net', '--pid', '--fork', 'true']
  return spawnSync('unshare', ask, { stdio: 'ignore' }).status === 0
})()

test('a browser that a script names is started with its sandbox, and as the sandbox asks it', async () => {
  const argv = await startedBy('spawn', '--no-sandbox', '--remote-debugging-pipe', '--mute')
  expect(argv[0]).toBe('MINE use-vc')
  expect(argv.includes('--no-sandbox')).toBe(!hasNamespaces)
  expect(argv.slice(-2)).toEqual(['--remote-debugging-pipe', '--mute'])
})

test('a browser that cannot be in a sandbox starts without', async () => {
  const argv = await startedBy('spawn', '--no-sandbox', '--no-zygote', '--remote-debugging-pipe')
  expect(argv).toContain('--no-sandbox')
  expect(argv).toContain('--no-zygote')
})

test('other programs are started as they are', async () => {
  expect(await startedBy('spawn', '--no-sandbox', '--x')).toEqual(['MINE ', '--no-sandbox', '--x'])
})
