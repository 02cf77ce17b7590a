// The suite of the bench: ten ordinary tests against a shop on loopback, with fixtures of worker and test scope and
// two workers. One test passes only on retry, one always fails.
import { execFile } from 'node:child_process'
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { servePackages } from './packed-packages.ts'

const run = promisify(execFile)
const PLAYWRIGHT = '1.58.2'

/** A shop that listens on loopback. */
export interface Shop {
  url: string
  close(): void
}

const ITEMS = ['pen', 'ink', 'paper', 'ruler', 'stamp', 'glue'].map((name, at) => ({
  name,
  price: 3 + at,
}))

const page = (title: string, body: string) =>
  `<!doctype html><html><head><title>${title}</title><link rel="stylesheet" href="/style.css">` +
  `<link rel="icon" href="data:,"></head><body><h1>${title}</h1>${body}` +
  `<script src="/shop.js"></script></body></html>`

const list = ITEMS.map(
  ({ name, price }) =>
    `<li data-testid="${name}"><img src="/${name}.svg" alt="${name}"> ${name} <b>${price} €</b> ` +
    `<button data-item="${name}">buy ${name}</button></li>`,
).join('')

const ANSWERS: Readonly<Record<string, [type: string, body: string]>> = {
  '/': [
    'text/html',
    page('Shop', `<ul>${list}</ul><p id="basket">0 items</p><a href="/about">about</a>`),
  ],
  '/about': ['text/html', page('About', '<p>since 1912</p><a href="/">back</a>')],
  '/login': [
    'text/html',
    page(
      'Log in',
      '<form action="/account"><label>Name <input name="name"></label>' +
        '<label>Password <input name="password" type="password"></label><button>Log in</button></form>',
    ),
  ],
  '/account': ['text/html', page('Account', '<p>Welcome</p>')],
  '/style.css': ['text/css', 'body { font-family: sans-serif } li { padding: 4px } '.repeat(40)],
  '/shop.js': [
    'text/javascript',
    `let items = 0
for (const button of document.querySelectorAll('button[data-item]')) button.onclick = async () => {
  await fetch('/api/basket?item=' + button.dataset.item)
  document.querySelector('#basket').textContent = ++items + ' items'
}`,
  ],
  '/api/items': ['application/json', JSON.stringify(ITEMS)],
  '/api/basket': ['application/json', '{"ok":true}'],
  '/api/token': ['application/json', '{"token":"t-1"}'],
}

/** Starts the shop. */
export async function openShop(): Promise<Shop> {
  const server = createServer(answer)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, close: () => server.close() }
}

function answer({ url = '' }: IncomingMessage, response: ServerResponse): void {
  const path = url.split('?')[0] ?? ''
  const picture = '<svg xmlns="http://www.w3.org/2000/svg" width="90" height="60"/>'
  const known = path.endsWith('.svg') ? (['image/svg+xml', picture] as const) : ANSWERS[path]
  if (known === undefined) response.writeHead(404).end('no such page')
  else response.writeHead(200, { 'content-type': known[0] }).end(known[1])
}

/** A reporter that prints the same line under either runner: when the first test began, and the outcomes. */
const REPORTER = `const { writeFileSync } = require('node:fs')
module.exports = class {
  onBegin(config, suite) { this.suite = suite }
  onTestBegin() { this.beganAt ??= Date.now() }
  onEnd() {
    const outcomes = this.suite.allTests().map((test) =>
      [test.titlePath().join(' '), test.outcome(), ...test.results.map((one) => one.status)].join(': '))
    const report = { beganAt: this.beganAt, outcomes: outcomes.sort() }
    console.log('REPORT ' + JSON.stringify(report) + ' END')
  }
}
`

const config = `import { defineConfig } from '@playwright/test'
export default defineConfig({
  testDir: 'tests',
  fullyParallel: true,
  workers: 2,
  retries: 1,
  timeout: 20_000,
  reporter: [['list'], ['html', { open: 'never' }], ['./report.cjs']],
  use: {
    baseURL: process.env.SHOP,
    trace: 'on',
    screenshot: 'only-on-failure',
    video: process.env.WITH_VIDEO === '1' ? 'on-first-retry' : 'off',
  },
})
`

const fixtures = `import { test as base, expect } from '@playwright/test'
export const test = base.extend<{ shop: import('@playwright/test').Page }, { token: string }>({
  token: [async ({ playwright }, use) => {
    const context = await playwright.request.newContext({ baseURL: process.env.SHOP })
    const { token } = await (await context.get('/api/token')).json()
    await context.dispose()
    await use(token)
  }, { scope: 'worker' }],
  shop: async ({ page }, use) => {
    await page.goto('/')
    await use(page)
  },
})
export { expect }
`

const shopTests = `import { test, expect } from './fixtures'
test('shows all items', async ({ shop }) => {
  await expect(shop.getByRole('listitem')).toHaveCount(6)
  await expect(shop).toHaveTitle('Shop')
})
test('puts an item into the basket', async ({ shop }) => {
  await shop.getByRole('button', { name: 'buy ink' }).click()
  await expect(shop.locator('#basket')).toHaveText('1 items')
})
test('counts three items', async ({ shop }) => {
  for (const name of ['pen', 'paper', 'glue']) {
    await test.step('buy ' + name, () => shop.getByRole('button', { name: 'buy ' + name }).click())
  }
  await expect(shop.locator('#basket')).toHaveText('3 items')
})
test('goes to the story and back', async ({ shop }) => {
  await shop.getByRole('link', { name: 'about' }).click()
  await expect(shop.getByText('since 1912')).toBeVisible()
  await shop.getByRole('link', { name: 'back' }).click()
  await expect(shop.getByRole('heading')).toHaveText('Shop')
})
`

const accountTests = `import { test, expect } from './fixtures'
test('logs in', async ({ page }) => {
  await page.goto('/login')
  await page.getByLabel('Name').fill('ada')
  await page.getByLabel('Password').fill('lovelace')
  await page.getByRole('button', { name: 'Log in' }).click()
  await expect(page.getByText('Welcome')).toBeVisible()
})
test('lists items by its API', async ({ request, token }) => {
  const response = await request.get('/api/items', { headers: { 'x-token': token } })
  expect(response.status()).toBe(200)
  expect(await response.json()).toHaveLength(6)
})
test('says what is missing', async ({ page }) => {
  const response = await page.goto('/nowhere')
  expect(response?.status()).toBe(404)
})
test('has a picture of each item', async ({ shop }) => {
  await expect(shop.getByRole('img')).toHaveCount(6)
  await shop.screenshot({ path: test.info().outputPath('shop.png') })
})
`

const unsteadyTests = `import { test, expect } from './fixtures'
test('passes at the second try', async ({ shop }, info) => {
  await shop.getByRole('button', { name: 'buy pen' }).click()
  await expect(shop.locator('#basket')).toHaveText(info.retry === 0 ? 'a basket' : '1 items', { timeout: 500 })
})
test('fails', async ({ shop }) => {
  await expect(shop.getByText('sold out')).toBeVisible({ timeout: 500 })
})
`

/** Folder of the engines and runtimes of benches. */
export const BENCH_TOOLS = process.env['TOOLS_DIR'] ?? join(tmpdir(), 'vedette-tools')

/** What benches of suites need. */
export interface SuiteBed {
  /** A folder that the users of runs may enter. */
  folder: string
  /** The project below it. */
  project: string
  /** Address of the shop. */
  shop: string
  /** Address of the registry with the project's packages. */
  registry: string
  close(): Promise<void>
}

/** Starts the shop and the registry, and writes the project. */
export async function makeSuiteBed(): Promise<SuiteBed> {
  const folder = await mkdtemp(join(tmpdir(), 'vedette-bench-'))
  await chmod(folder, 0o755)
  const [shop, packages] = [await openShop(), await servePackages()]
  const project = join(folder, 'shop-tests')
  await makeSuite(project, packages.url)
  return {
    folder,
    project,
    shop: shop.url,
    registry: packages.url,
    async close() {
      shop.close()
      packages.close()
      await rm(folder, { recursive: true })
    },
  }
}

/** Writes the project with its lock file and packages, which npm fetches from that registry. */
async function makeSuite(folder: string, registry: string): Promise<void> {
  const files: Record<string, string> = {
    'package.json': JSON.stringify({
      name: 'shop-tests',
      private: true,
      devDependencies: { '@playwright/test': PLAYWRIGHT },
    }),
    'playwright.config.ts': config,
    'report.cjs': REPORTER,
    'tests/fixtures.ts': fixtures,
    'tests/shop.spec.ts': shopTests,
    'tests/account.spec.ts': accountTests,
    'tests/unsteady.spec.ts': unsteadyTests,
  }
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await writeFile(join(folder, path), text)
  }
  const quiet = ['--no-audit', '--no-fund', '--ignore-scripts', `--registry=${registry}`]
  await run('npm', ['install', ...quiet], { cwd: folder })
}

/** The line of the suite's own reporter on its standard output. */
export interface SuiteReport {
  /** Milliseconds since the Unix epoch. */
  beganAt: number
  /** A line a test: its name, its outcome, and how each attempt ended; sorted. */
  outcomes: string[]
}

/** Finds the reporter's line in the output of a run. */
export function reportOf(output: string): SuiteReport {
  const found = /REPORT (\{.*\}) END/.exec(output)?.[1]
  if (found === undefined) throw new Error(`the suite reported nothing:\n${output.slice(-3000)}`)
  return JSON.parse(found) as SuiteReport
}

/** Throws unless all ten tests ran, of which one fails and one passes on retry. */
export function checkOutcomes(outcomes: readonly string[]): void {
  const of = (outcome: string) => outcomes.filter((one) => one.includes(`: ${outcome}: `)).length
  if (outcomes.length === 10 && of('expected') === 8 && of('flaky') === 1) return
  throw new Error(`the suite did not run as it is written:\n${outcomes.join('\n')}`)
}
