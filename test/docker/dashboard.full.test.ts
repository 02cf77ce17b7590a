// Every metric and label in the dashboard and in the scaled objects must be one that an agent or a platform exposes.
// Both are started, connected as in the compose file, and scraped; and a real Prometheus answers every query.
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { parse } from 'yaml'
import { METRICS } from '../../src/monitors/definitions.ts'
import { type StartedAgent, startAgentProcess } from '../support/agent/agent-process.ts'
import { createTestDatabase, type TestDatabase } from '../support/database/database.ts'
import { eventually } from '../support/eventually.ts'
import { missing } from '../support/needs.ts'
import { startPlatform, type StartedPlatform } from '../support/platform/platform-process.ts'
import { type Prometheus, startPrometheus } from '../support/container/prometheus.ts'
import {
  groupedIn,
  selectedIn,
  type Series,
  seriesIn,
} from '../support/container/prometheus-text.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

// Real processes, on machines that may be busy with other things.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const folder = join(import.meta.dirname, '../../docker')
const ACCOUNT_ID = '0b9f1e3c-8f3a-4f5e-9d62-0a1b2c3d4e5f'
const ADMIN_API_KEY = 'vk_an-admin-key-for-this-test'

interface Panel {
  id: number
  title: string
  type: string
  gridPos: { x: number; y: number; w: number; h: number }
  targets?: { expr: string; legendFormat: string }[]
}

const dashboard = JSON.parse(
  readFileSync(join(folder, 'grafana/dashboards/vedette.json'), 'utf8'),
) as {
  panels: Panel[]
  templating: { list: { name: string; definition?: string }[] }
}
const targets = dashboard.panels.flatMap(({ title, targets: own = [] }) =>
  own.map(({ expr, legendFormat }) => ({ title, expr, legendFormat })),
)
const scaled = [
  readFileSync(join(folder, 'kubernetes/keda.yaml'), 'utf8'),
  readFileSync(join(folder, 'helm/vedette-agent/templates/scaled-object.yaml'), 'utf8').replaceAll(
    /\{\{ \.Values\.keda\.queue \}\}/g,
    (
      parse(readFileSync(join(folder, 'helm/vedette-agent/values.yaml'), 'utf8')) as {
        keda: { queue: string }
      }
    ).keda.queue,
  ),
]

/** Labels that Prometheus adds to every scraped series. */
const OF_TARGETS = new Set(['job', 'instance', 'namespace', 'pod'])

let database: TestDatabase
let platform: StartedPlatform
let agent: StartedAgent
let series: Record<'agent' | 'platform', Series>

async function metricsOf(url: string): Promise<string> {
  return await (await fetch(`${url}/metrics`)).text()
}

async function addMonitor(): Promise<void> {
  const response = await fetch(`${platform.url}/v1/checks/url`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${ADMIN_API_KEY}`,
      'x-service-account': ACCOUNT_ID,
      'content-type': 'application/json',
    },
    body: JSON.stringify({
      name: 'Itself',
      privateLocations: ['compose'],
      frequency: 0,
      frequencyOffset: 10,
      request: { url: `${platform.url}/health` },
    }),
  })
  expect([response.status, await response.json()]).toMatchObject([201, { name: 'Itself' }])
}

beforeAll(async () => {
  database = await createTestDatabase()
  platform = await startPlatform({
    DATABASE_URL: database.url,
    DATA_DIR: temporaryFolder(),
    ACCOUNT_ID,
    ADMIN_API_KEY,
  })
  const left = temporaryFolder()
  await promisify(execFile)(process.execPath, [join(folder, 'first-location.ts'), 'compose'], {
    env: { PLATFORM_URL: platform.url, ACCOUNT_ID, ADMIN_API_KEY, DATA_DIR: left },
  })
  await addMonitor()
  agent = await startAgentProcess({
    PLATFORM_URL: platform.url,
    API_KEY_FILE: join(left, 'api-key'),
    DATA_DIR: temporaryFolder(),
  })
  const text = await eventually(
    async () => {
      const now = await metricsOf(agent.url)
      return (
        /^probe_success\{/m.test(now) && /^vedette_results_delivered_total [1-9]/m.test(now) && now
      )
    },
    { what: 'a delivered result' },
  )
  const samples = [...METRICS.keys()].map((name) => `# TYPE ${name} gauge\n`).join('')
  series = {
    agent: seriesIn(text + samples),
    platform: seriesIn(await metricsOf(platform.metricsUrl)),
  }
})
afterAll(async () => {
  agent?.child.kill('SIGKILL')
  platform?.kill('SIGKILL')
  await Promise.all([agent?.ended, platform?.ended])
  await database?.drop()
})

/** The job that a query names. */
function sidesOf(query: string): ('agent' | 'platform')[] {
  const sides = (['agent', 'platform'] as const).filter((side) => query.includes(`$${side}`))
  return sides.length === 0 ? ['agent'] : sides
}

/** Errors of a query and of the labels in its legend. */
function wrongIn(query: string, legend = ''): string[] {
  const shown = [...legend.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = '']) => label)
  const selected = selectedIn(query)
  if (selected.length === 0) return [`${query} asks for nothing`]
  return sidesOf(query).flatMap((side) =>
    selected.flatMap(({ name, matchers }) => {
      const labels = series[side].get(name)
      if (labels === undefined) return [`${name} is no metric of the ${side}`]
      const grouped = groupedIn(query)
      const named = [...matchers.map(({ label }) => label), ...grouped, ...shown]
      // Samples that this agent's monitors do not produce are known by name, without labels.
      const own =
        labels.size === 0 && METRICS.has(name) ? series.agent.get('probe_success') : labels
      const strange = named.filter((one) => !OF_TARGETS.has(one) && !own?.has(one))
      const unseen = matchers.filter(
        ({ label, operator, value }) =>
          operator === '=' &&
          !value.includes('$') &&
          !OF_TARGETS.has(label) &&
          !own?.get(label)?.has(value),
      )
      return [
        ...strange.map((one) => `${name} of the ${side} has no label ${one}`),
        ...unseen.map(({ label, value }) => `${name} has no ${label}="${value}"`),
      ]
    }),
  )
}

describe('the dashboard', () => {
  test.each(targets)('$title: $legendFormat', ({ expr, legendFormat }) => {
    expect(wrongIn(expr, legendFormat)).toEqual([])
  })

  test('queries the jobs that prometheus.yml names, by metrics that only one of them has', () => {
    const definitions = dashboard.templating.list.flatMap(({ definition }) => definition ?? [])
    const [agents, platforms, location] = definitions.map(
      (one) => /^label_values\((\w+), (\w+)\)$/.exec(one)?.slice(1) ?? [],
    )
    expect([agents?.[1], platforms?.[1]]).toEqual(['job', 'job'])
    expect(series.agent.has(agents?.[0] ?? '')).toBe(true)
    expect(series.platform.has(agents?.[0] ?? '')).toBe(false)
    expect(series.platform.has(platforms?.[0] ?? '')).toBe(true)
    expect(series.agent.has(platforms?.[0] ?? '')).toBe(false)
    expect(series.agent.get(location?.[0] ?? '')?.has(location?.[1] ?? '')).toBe(true)
  })

  test('names only variables that it has', () => {
    const names = dashboard.templating.list.map(({ name }) => name)
    const used = targets.flatMap(({ expr }) =>
      [...expr.matchAll(/\$(\w+)/g)].map(([, name]) => name),
    )
    expect(
      [...new Set(used)].filter((one) => !['__rate_interval', ...names].includes(one ?? '')),
    ).toEqual([])
  })

  test('places its panels without overlaps', () => {
    const { panels } = dashboard
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length)
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, at) => `${x + (at % w)} ${y + Math.floor(at / w)}`),
    )
    expect(new Set(cells).size).toBe(cells.length)
    expect(Math.max(...panels.map(({ gridPos }) => gridPos.x + gridPos.w))).toBe(24)
  })
})

const queryOf = (scaledObject: string) =>
  /query: >-?\n((?: +(?:sum|\+).*\n)+)/.exec(scaledObject)?.[1] ?? ''

test.each(scaled)('a scaled object queries queues of agents', (text) => {
  const query = queryOf(text)
  expect(selectedIn(query).map(({ name }) => name)).toEqual([
    'vedette_queue_waiting',
    'vedette_queue_running',
  ])
  expect(wrongIn(query)).toEqual([])
})

describe('a real Prometheus', () => {
  const why = missing('prometheus')
  let prometheus: Prometheus
  beforeEach(({ skip }) => skip(why !== undefined, why))
  beforeAll(async () => {
    if (why !== undefined) return
    prometheus = await startPrometheus(
      {
        'vedette-agent': new URL(agent.url).host,
        'vedette-platform': new URL(platform.metricsUrl).host,
      },
      { namespace: 'vedette' },
    )
    // Rates need two scrapes, between them a run and a request.
    await eventually(
      async () => {
        await (await fetch(`${platform.url}/v1`)).text()
        const rates = await prometheus.query(filled(RATES))
        return rates.length === 3 && rates.every(({ value }) => value > 0)
      },
      { what: 'a run between two scrapes' },
    )
  })
  afterAll(() => prometheus?.close())

  const RATES = [
    'rate(vedette_slot_lateness_seconds_count{job="$agent"}[$__rate_interval])',
    'sum(rate(vedette_results_total{job="$platform"}[$__rate_interval]))',
    'rate(vedette_http_request_duration_seconds_count{job="$platform"}[$__rate_interval])',
  ]
    .map((rate, at) => `label_replace(${rate}, "of", "${at}", "", "")`)
    .join(' or ')
  const filled = (query: string) =>
    query
      .replaceAll('$__rate_interval', '1m')
      .replaceAll('$agent', 'vedette-agent')
      .replaceAll('$platform', 'vedette-platform')
      .replaceAll('$location', '.*')

  test('scrapes both', async () => {
    const up = await prometheus.query('up')
    const values = up.map(({ labels, value }) => [labels['job'] ?? '', value] as const)
    expect(Object.fromEntries(values)).toEqual({ 'vedette-agent': 1, 'vedette-platform': 1 })
  })

  test.each(targets)('answers $title: $legendFormat', async ({ expr }) => {
    const answer = await prometheus.query(filled(expr))
    // No certificate exists, and nothing fails.
    const isEmpty = expr.includes('probe_ssl_') || expr.startsWith('probe_success{')
    expect(answer.length > 0).toBe(!isEmpty)
    expect(answer.filter(({ value }) => Number.isNaN(value))).toEqual([])
  })

  test('counts waiting calls, not their time', async () => {
    const [waitingCalls] = await prometheus.query(
      'sum(vedette_http_requests_total) - sum(vedette_http_request_duration_seconds_count)',
    )
    expect(waitingCalls?.value).toBeGreaterThan(0)
  })

  test.each(scaled)('gives a scaled object 0 where nothing waits or runs', async (text) => {
    const query = queryOf(text).replaceAll('{{ .Release.Namespace }}', 'vedette')
    expect(await prometheus.query(query)).toEqual([{ labels: {}, value: 0 }])
  })
})

test('unknown metrics, labels and values are found', () => {
  expect([
    ...wrongIn('sum(vedette_queue_length{job="$agent"})'),
    ...wrongIn('sum by (verdict) (vedette_results_total{job="$platform"})'),
    ...wrongIn('vedette_queue_waiting{queue="browser"}'),
    ...wrongIn('vedette_syncs_held{job="$agent"}', '{{state}}'),
  ]).toEqual([
    'vedette_queue_length is no metric of the agent',
    'vedette_results_total of the platform has no label verdict',
    'vedette_queue_waiting has no queue="browser"',
    'vedette_syncs_held is no metric of the agent',
  ])
})
