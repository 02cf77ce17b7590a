// Requirements of the agent's images, for sizing memory and CPU: the time from `docker run` to
// ready, the idle state, and one kind of work at a time.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Verdict } from '../../../src/contract/result.ts'
import { type Image, tagOf } from '../../support/container/images.ts'
import { startNginx } from '../../support/network/nginx.ts'
import { startBenchContainer } from './container-figures.ts'
import { checkRuns } from '../load-check.ts'
import { growth, scrape } from '../metrics-text.ts'
import { median } from '../process-figures.ts'
import { makeSuiteBed } from '../suites/suite-project.ts'
import { markdownTable } from '../table.ts'

const STARTS = 7
const IDLE_MS = 20_000
const WARM_UP_MS = 45_000
const MEASURED_MS = 60_000

/** One kind of work: an image, a file of monitors, and the type whose results are counted. */
interface Work {
  name: string
  image: Image
  type: string
  verdict: Verdict
  monitors: string[]
}

/** Prints start and idle figures of both images, then CPU and memory by kind of work. */
export async function benchImages(): Promise<void> {
  const bed = await makeSuiteBed()
  const { folder } = bed
  const file = join(folder, 'monitors.yaml')
  const rows = [['image', `ready (median of ${STARTS})`, 'slowest', 'idle MiB']]
  await writeFile(file, asFile([closedPort]))
  for (const image of ['agent-uptime', 'agent'] as const) rows.push(await startRow(image, folder))
  process.stdout.write(`${markdownTable(rows)}\n\n`)
  const nginx = await startNginx()
  const table = [
    ['work', 'results a minute', 'mCore', 'CPU-s a result', 'MiB at the end', 'MiB peak'],
  ]
  for (const work of works(nginx.url, bed.shop)) {
    await writeFile(file, asFile(work.monitors))
    table.push(await workRow(work, folder))
  }
  await nginx.close()
  await bed.close()
  process.stdout.write(`${markdownTable(table)}\n`)
}

const closedPort = `{name: one, type: TCP, every: 1h, request: {hostname: 127.0.0.1, port: 9}}`

const asFile = (monitors: readonly string[]) =>
  `monitors:\n${monitors.map((one) => `  - ${one}\n`).join('')}`

async function startRow(image: Image, folder: string): Promise<string[]> {
  const readyMs: number[] = []
  let idleMiB = 0
  for (let start = 0; start < STARTS; start++) {
    const container = await startBenchContainer(tagOf(image), { folder })
    readyMs.push(container.readyMs)
    if (start === STARTS - 1) idleMiB = (await container.usageUntil(sleep(IDLE_MS))).memoryMiB
    await container.close()
  }
  const [middle, slowest] = [median(readyMs), Math.max(...readyMs)]
  return [image, `${Math.round(middle)} ms`, `${Math.round(slowest)} ms`, idleMiB.toFixed(0)]
}

async function workRow(
  { name, image, type, verdict, monitors }: Work,
  folder: string,
): Promise<string[]> {
  await writeFile(join(folder, 'monitors.yaml'), asFile(monitors))
  const env = { JOB_CONCURRENCY: '1' }
  const container = await startBenchContainer(tagOf(image), { folder, env, isOnHost: true })
  await sleep(WARM_UP_MS)
  const before = await scrape(container.url)
  const usage = await container.usageUntil(sleep(MEASURED_MS))
  const after = await scrape(container.url)
  await container.close()
  checkRuns(before, after, { verdict, runsMin: 1 })
  const results = growth(before, after, 'vedette_results_total', type)
  const mCore = (usage.cpuMs / usage.wallMs) * 1000
  return [
    name,
    ((results * 60_000) / usage.wallMs).toFixed(0),
    mCore.toFixed(0),
    (usage.cpuMs / 1000 / results).toFixed(results > 100 ? 5 : 1),
    usage.memoryMiB.toFixed(0),
    usage.memoryPeakMiB.toFixed(0),
  ]
}

function works(site: string, shop: string): Work[] {
  const many = (count: number, monitor: (n: number) => string) =>
    Array.from({ length: count }, (_, n) => monitor(n))
  const url = (every: string) => (n: number) =>
    `{id: m${n}, name: m${n}, type: URL, every: ${every}, request: {url: "${site}/?n=${n}"}}`
  const api = (n: number) =>
    `{id: a${n}, name: a${n}, type: API, every: 1m, request: {method: GET, url: "${site}/?n=${n}", ` +
    'assertions: [STATUS_CODE EQUALS 200, RESPONSE_TIME LESS_THAN 5000]}}'
  const script = (type: string, text: string) => (n: number) =>
    `{id: s${n}, name: s${n}, type: ${type}, every: 1m, script: ${JSON.stringify(text)}}`
  const suite = (n: number) =>
    `{id: p${n}, name: p${n}, type: PLAYWRIGHT, every: 1m, codeBundlePath: ./shop-tests, ` +
    `installCommand: "", engine: node, engineVersion: "24", environmentVariables: [{key: SHOP, value: "${shop}"}]}`
  const uptime = { image: 'agent-uptime', type: 'type="URL"', verdict: 'passed' } as const
  return [
    { ...uptime, name: '1,000 URL monitors a minute', monitors: many(1000, url('1m')) },
    { ...uptime, name: '10,000 URL monitors a minute', monitors: many(10_000, url('1m')) },
    {
      ...uptime,
      name: '1,000 API monitors a minute',
      type: 'type="API"',
      monitors: many(1000, api),
    },
    ...[
      [
        'BROWSER',
        'browser monitors, one at a time',
        many(30, script('BROWSER', visit(shop))),
      ] as const,
      [
        'MULTI_STEP',
        'multistep monitors, one at a time',
        many(60, script('MULTI_STEP', ask(shop))),
      ] as const,
      ['PLAYWRIGHT', 'suites of ten tests, one at a time', many(8, suite)] as const,
    ].map(([type, name, monitors]) => ({
      name,
      image: 'agent' as const,
      type: `type="${type}"`,
      // One test of the suite fails by design.
      verdict: type === 'PLAYWRIGHT' ? ('failed' as const) : ('passed' as const),
      monitors,
    })),
  ]
}

const visit = (shop: string) => `
const { test, expect } = require('@playwright/test')
test('buys ink', async ({ page }) => {
  await page.goto('${shop}')
  await page.getByRole('button', { name: 'buy ink' }).click()
  await expect(page.locator('#basket')).toHaveText('1 items')
  await page.screenshot({ path: 'basket.png' })
})`

const ask = (shop: string) => `
const { test, expect } = require('@playwright/test')
test('five requests', async ({ request }) => {
  for (let n = 0; n < 5; n++) expect((await request.get('${shop}/api/items?n=' + n)).status()).toBe(200)
})`
