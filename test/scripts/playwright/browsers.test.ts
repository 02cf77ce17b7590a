// Browsers of Playwright and of scripts start with the arguments of the sandbox, and keep their own.
import { execFileSync } from 'node:child_process'
import { realpathSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { prepareBrowsers } from '../../../src/scripts/playwright/browsers.ts'
import { withoutNamespaces } from '../../support/needs.ts'
import { temporaryFile, temporaryFolder } from '../../support/temporary-folder.ts'

/** A folder of browsers for a Playwright that lists these. */
async function prepared(chromium: string, listed: Record<string, string> = {}): Promise<string> {
  const [core, browsers] = [temporaryFolder(), join(temporaryFolder(), 'browsers')]
  const list = Object.entries(listed).map(([name, revision]) => ({ name, revision }))
  writeFileSync(join(core, 'browsers.json'), JSON.stringify({ browsers: list }))
  expect(await prepareBrowsers(browsers, core, { chromium })).toBe(true)
  return browsers
}

/** A program that prints its arguments. */
const PRINTS = '#!/bin/sh\nprintf "%s\\n" "RES_OPTIONS=$RES_OPTIONS" "$@"\n'
const printing = () => temporaryFile('my browser', PRINTS, 0o755)

function linesOf(program: string, args: string[], more: Record<string, string> = {}): string[] {
  const env = { PATH: process.env['PATH'], ...more }
  return execFileSync(program, args, { env }).toString().trim().split('\n')
}

const started = async (...given: string[]) =>
  linesOf(join(await prepared(printing()), 'chromium'), given)

const SHELL = 'chromium-headless-shell'
const OLD = 'chromium-1155/chrome-linux/chrome'
const OLD_SHELL = 'chromium_headless_shell-1155/chrome-linux/headless_shell'
const NEW = 'chromium-1208/chrome-linux64/chrome'
const NEW_SHELL = 'chromium_headless_shell-1209/chrome-headless-shell-linux64/chrome-headless-shell'

test.each<[string, Record<string, string>, string[]]>([
  ['1.50, which does not list its shell', { chromium: '1155' }, [OLD, OLD_SHELL]],
  ['1.58', { chromium: '1208', [SHELL]: '1209' }, [NEW, NEW_SHELL]],
])('Playwright %s finds it where it looks', async (_, listed, places) => {
  const browsers = await prepared('/usr/bin/true', listed)
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
  // Nobody is called of the browser's own accord.
  expect(argv).toContainEqual(expect.stringMatching(/^--component-updater=.*127\.0\.0\.1:9/))
  const off = argv.find((arg) => arg.startsWith('--disable-features='))
  expect(off).toContain('NetworkTimeServiceQuerying')
  expect(off).toContain('AutofillServerCommunication')
})

test('features that a script turns off or on stay so, the last argument of each counting as ever', async () => {
  const features = ['--disable-features=A', '--disable-features=B,C', '--enable-features=D']
  const argv = await started(...features, '--user-data-dir=/a b')
  expect(argv.filter((arg) => /-features=/.test(arg))).toEqual([
    expect.stringMatching(/^--disable-features=B,C,AsyncDns,/),
    '--enable-features=D,EnableIPv6ReachabilityOverride',
  ])
  expect(argv.at(-1)).toBe('--user-data-dir=/a b')
})

test.each([
  ['--log-net-log=/dev/null', '--net-log-capture-mode=Default'],
  ['--log-net-log', '-net-log-capture-mode=Default'],
])('a log of network events that a script asks for takes the place of no other', async (...own) => {
  const argv = await started(...own, 'about:blank')
  expect(argv.filter((one) => /-net-log/.test(one))).toEqual([
    expect.stringMatching(/^--log-net-log=.*\/network\/\d+$/),
    '--net-log-capture-mode=IncludeSensitive',
  ])
  expect(argv.at(-1)).toBe('about:blank')
})

const CHILDREN = join(import.meta.dirname, '../../../src/scripts/in-run/child-processes.cjs')

/** What starts when code that has `child-processes.cjs` starts a program with these arguments. */
async function startedByScript(...args: string[]): Promise<string[]> {
  return startedAs(printing(), ...args)
}

/** The same for a program with a name of its own. */
async function startedAs(program: string, ...args: string[]): Promise<string[]> {
  return startedBy('spawn', program, ...args)
}

async function startedBy(start: string, program: string, ...args: string[]): Promise<string[]> {
  const code = `require(${JSON.stringify(CHILDREN)})()
    require('node:child_process').${start}(${JSON.stringify(program)}, ${JSON.stringify(args)}, { stdio: 'inherit' })`
  const PLAYWRIGHT_BROWSERS_PATH = await prepared('/nowhere')
  return linesOf(process.execPath, ['-e', code], { PLAYWRIGHT_BROWSERS_PATH })
}

test('a browser that a script names is started with its sandbox, and as the sandbox asks it', async () => {
  const argv = await startedByScript('--no-sandbox', '--remote-debugging-pipe', '--mute')
  expect(argv[0]).toBe('RES_OPTIONS=use-vc')
  expect(argv.includes('--no-sandbox')).toBe(withoutNamespaces() !== undefined)
  expect(argv.slice(-2)).toEqual(['--remote-debugging-pipe', '--mute'])
})

test('a browser that cannot be in a sandbox starts without', async () => {
  const argv = await startedByScript('--no-sandbox', '--no-zygote', '--remote-debugging-pipe')
  expect(argv).toEqual(expect.arrayContaining(['--no-sandbox', '--no-zygote']))
})

test.each(['chromium', 'google-chrome-stable', 'chrome-headless-shell'])(
  'a browser by its name, %s, that is not steered is started by the launcher, too',
  async (name) => {
    const argv = await startedAs(temporaryFile(name, PRINTS, 0o755), '--dump-dom')
    expect(argv[0]).toBe('RES_OPTIONS=use-vc')
    expect(argv.at(-1)).toBe('--dump-dom')
  },
)

test('a browser that is started synchronously is started by the launcher, too', async () => {
  const argv = await startedBy('spawnSync', temporaryFile('chromium', PRINTS, 0o755), '--dump-dom')
  expect(argv[0]).toBe('RES_OPTIONS=use-vc')
})

test('Chromium by its name alone is started by the launcher once', async () => {
  const browsers = await prepared(printing())
  const code = `require(${JSON.stringify(CHILDREN)})()
    require('node:child_process').spawn('chromium', ['--dump-dom'], { stdio: 'inherit' })`
  const PATH = `${browsers}:${process.env['PATH'] ?? ''}`
  const env = { PATH, PLAYWRIGHT_BROWSERS_PATH: browsers }
  const argv = linesOf(process.execPath, ['-e', code], env)
  expect(argv.filter((one) => one.startsWith('--log-net-log='))).toHaveLength(1)
  expect(argv.at(-1)).toBe('--dump-dom')
})

test.each(['chrome-remote-interface', 'chromedriver', 'chrome-sandbox'])(
  '%s is no browser',
  async (name) => {
    const argv = await startedAs(temporaryFile(name, PRINTS, 0o755), '--x')
    expect(argv).toEqual(['RES_OPTIONS=', '--x'])
  },
)

test('other programs are started as they are', async () => {
  const argv = ['--no-sandbox', '--x']
  expect(await startedByScript(...argv)).toEqual(['RES_OPTIONS=', ...argv])
})
