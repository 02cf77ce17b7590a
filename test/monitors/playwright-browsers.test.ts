// Aim: the browser that Playwright finds is started with what the cage asks of it, and keeps what a script
// asked of it.
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { prepareBrowsers } from '../../src/monitors/playwright-browsers.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

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

test('names are asked of the system, over TCP, and nothing is tried by datagrams', async () => {
  const words = await started('--headless', 'about:blank')
  expect(words).toContain('RES_OPTIONS=use-vc')
  expect(words).toContain('--disable-quic')
  expect(words).toContain('--disable-features=AsyncDns')
  expect(words).toContain('--enable-features=EnableIPv6ReachabilityOverride')
  expect(words.slice(-2)).toEqual(['--headless', 'about:blank'])
})

test('features that a script turns off or on stay so, the last word of each counting as ever', async () => {
  const words = await started(
    '--disable-features=A',
    '--disable-features=B,C',
    '--enable-features=D',
    '--user-data-dir=/a b',
  )
  expect(words.filter((word) => /-features=/.test(word))).toEqual([
    '--disable-features=B,C,AsyncDns',
    '--enable-features=D,EnableIPv6ReachabilityOverride',
  ])
  expect(words.at(-1)).toBe('--user-data-dir=/a b')
})
