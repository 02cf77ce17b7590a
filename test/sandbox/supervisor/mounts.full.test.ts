// Below a folder that only root may pass, user code runs as anywhere, and nothing else there is open to it.
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { browser } from '../../../src/monitors/browser/index.ts'
import { multistep } from '../../../src/monitors/multistep/index.ts'
import { mayMount } from '../../../src/sandbox/supervisor/mounts.ts'
import { sandboxed } from '../../support/sandbox/sandboxed.ts'
import { missing } from '../../support/needs.ts'
import { copyPlaywright, ownNode } from '../../support/scripts/script-host.ts'
import { runScriptMonitor } from '../../support/scripts/script-runs.ts'
import { startSmallSite } from '../../support/monitors/small-site.ts'
import { runFolder, suiteHost, suiteProject } from '../../support/suites/suite-runs.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const canMount = process.getuid?.() === 0 && mayMount()
const cannot = canMount ? '' : ': needs root with SYS_ADMIN'

// Short: below it Chromium makes a socket, whose path may have 107 bytes.
const home = mkdtempSync(join(tmpdir(), 'h-'))
const secret = join(home, 'secret')
writeFileSync(secret, 'of the home', { mode: 0o644 })
// All folders that this file asks for from now on are below the closed one.
const before = process.env['TMPDIR']
process.env['TMPDIR'] = home
afterAll(() => {
  if (before === undefined) delete process.env['TMPDIR']
  else process.env['TMPDIR'] = before
  rmSync(home, { recursive: true, force: true })
})

/** Prints what reading each of these paths gives: text, names, or a code. */
const look = (...paths: string[]) => `const fs = require('node:fs')
for (const path of ${JSON.stringify(paths)}) {
  try { console.log(fs.statSync(path).isFile() ? fs.readFileSync(path, 'utf8') : fs.readdirSync(path).length) }
  catch (error) { console.log(error.code) }
}`

describe.skipIf(!canMount)(`below a closed folder${cannot}`, () => {
  test('what an order names is there, and nothing else', async () => {
    const folder = temporaryFolder()
    chmodSync(folder, 0o700)
    const at = (name: string) => join(folder, name)
    const [given, withheld, linked] = [at('given'), at('withheld'), at('linked')]
    writeFileSync(given, 'text')
    writeFileSync(withheld, 'text')
    symlinkSync('/etc/hostname', linked)
    cpSync(process.execPath, at('node'))
    const end = await sandboxed({
      command: at('node'),
      args: () => ['-e', look(given, withheld, secret, home, linked)],
      readable: [given, linked],
      inspect: (own) => expect(own.startsWith(home)).toBe(true),
    })
    expect(end).toMatchObject({ outcome: 'exited', exitCode: 0 })
    expect(end.tail.stdout).toMatch(/^text\nENOENT\nENOENT\nEACCES\n(?!E[A-Z]+\n).+\n/)
    expect(existsSync(withheld)).toBe(true)
  })

  test('what a run writes is in its own folder, for the agent, too', async () => {
    const end = await sandboxed({
      args: (folder) => [
        '-e',
        `const fs = require('node:fs')
fs.mkdirSync('made'); fs.renameSync('made', 'moved'); fs.writeFileSync('moved/file', 'x')
try { fs.writeFileSync(${JSON.stringify(folder)} + '/../outside', 'x') } catch (error) { console.log(error.code) }`,
      ],
      inspect: (folder) => expect(existsSync(join(folder, 'moved', 'file'))).toBe(true),
    })
    expect(end).toMatchObject({ outcome: 'exited', exitCode: 0 })
    expect(end.tail.stdout).toBe('EACCES\n')
    expect(existsSync(join(home, 'outside'))).toBe(false)
  })

  const host = suiteHost()
  copyPlaywright(join(ownNode(host.tools.folder, 'runtime', '2026.04'), 'node_modules'))
  afterAll(() => host.close())

  test('a script runs', async () => {
    const script = look(secret)
    const { failures, observed } = await runScriptMonitor(multistep, { script }, { host })
    expect(failures).toEqual([])
    expect(JSON.stringify(observed)).toContain('ENOENT')
  })

  const why = missing('chromium')
  test.skipIf(why !== undefined)(`a browser runs ${why ?? ''}`, async () => {
    const site = await startSmallSite()
    const script = `import { expect, test } from '@playwright/test'
test('shop', async ({ page }) => {
  await page.goto('${site.url}/')
  await expect(page.locator('#stock')).toHaveText('in stock')
})`
    const { failures } = await runScriptMonitor(browser, { script }, { host })
    expect(failures).toEqual([])
  })

  test('a suite runs', async () => {
    const folder = suiteProject({
      'package.json': '{"name":"shop"}',
      'playwright.config.ts': 'export default {}',
      'home.spec.ts': `import { existsSync } from 'node:fs'
import { expect, test } from '@playwright/test'
test('the home is closed', () => expect(existsSync(${JSON.stringify(secret)})).toBe(false))`,
    })
    expect((await runFolder(host, folder)).failures).toEqual([])
  })
})
