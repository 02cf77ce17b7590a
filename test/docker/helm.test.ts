// The chart of the agent must give what docker/kubernetes gives: every value is known to the schema, every
// template finds its values, and what comes out fits the program, with any of its switches.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv } from 'ajv'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { VERSION } from '../../src/contract/versions.ts'
import { VARIABLES } from '../../src/agent/config.ts'
import { expectToFit, readSettings, type Pod } from '../support/deployed-agent.ts'
import { renderTemplate } from '../support/helm-template.ts'
import { strangePlaces } from '../support/kubernetes-shapes.ts'

const folder = join(import.meta.dirname, '../../docker/helm/vedette-agent')
const read = (path: string) => readFileSync(join(folder, path), 'utf8')

type Loose = Record<string, unknown>

const chart = parse(read('Chart.yaml')) as Loose
const values = parse(read('values.yaml')) as Loose
const schema = JSON.parse(read('values.schema.json')) as Loose
const isValid = new Ajv({ strict: true, allErrors: true, strictTypes: false }).compile(schema)

const GIVEN = { platformUrl: 'https://monitoring.example.com' }

function over(base: unknown, given: unknown): unknown {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return given
  const from = (base ?? {}) as Loose
  const entries = Object.entries(given).map(([key, value]) => [key, over(from[key], value)])
  return { ...from, ...(Object.fromEntries(entries) as Loose) }
}

/** What `helm template` gives, as objects. */
function release(given: Loose = {}): Loose[] {
  const Values = over(values, { ...GIVEN, ...given }) as Loose
  isValid(Values)
  expect(isValid.errors).toBeNull()
  const scope = {
    Values,
    Release: { Name: 'edge', Namespace: 'vedette', Service: 'Helm' },
    Chart: { AppVersion: chart['appVersion'] },
  }
  return readdirSync(join(folder, 'templates'))
    .filter((name) => name.endsWith('.yaml'))
    .map((name) => parse(renderTemplate(read(join('templates', name)), scope)) as Loose | null)
    .filter((object) => object !== null)
}

const kindOf = (objects: Loose[], kind: string) => objects.find((one) => one['kind'] === kind)
const podOf = (objects: Loose[]) =>
  (kindOf(objects, 'Deployment') as { spec: { template: { spec: Pod } } }).spec.template.spec

test('the chart is of this version', () => {
  expect(chart).toMatchObject({ version: VERSION, appVersion: VERSION })
})

describe('values', () => {
  test('need the address of the platform, and nothing else', () => {
    expect(isValid(values)).toBe(false)
    expect(isValid.errors?.map(({ instancePath }) => instancePath)).toEqual(['/platformUrl'])
    expect(isValid(over(values, GIVEN))).toBe(true)
  })

  test('are all known to the schema, at every depth', () => {
    const missing = (value: unknown, known: Loose, path: string): string[] => {
      const properties = known['properties'] as Record<string, Loose> | undefined
      if (properties === undefined || typeof value !== 'object' || value === null) return []
      return Object.entries(value).flatMap(([key, inner]) => {
        const found = properties[key]
        return found === undefined ? [`${path}.${key}`] : missing(inner, found, `${path}.${key}`)
      })
    }
    expect(missing(values, schema, '')).toEqual([])
  })

  test.each([
    ['a misspelt name', { replicas: 3 }],
    ['a key of something else', { apiKey: { value: 'vk_12345678' } }],
    ['an address without a protocol', { platformUrl: 'monitoring.example.com' }],
    ['a variable that the chart sets itself', { env: { DRAIN_SECONDS: '5' } }],
    ['a number where the variable is a text', { env: { UPTIME_CONCURRENCY: 5 } }],
    ['more runs at once than the agent takes', { jobConcurrency: 11 }],
    ['a queue that agents do not have', { keda: { queue: 'browser' } }],
  ])('are refused with %s', (_, given) => {
    expect(isValid(over(over(values, GIVEN), given))).toBe(false)
  })

  test('have names of variables that the agent knows in their examples', () => {
    const shown = [...read('values.yaml').matchAll(/^# {2}([A-Z_]+):/gm)].map(([, name]) => name)
    expect(shown.length).toBeGreaterThan(1)
    const known = new Set(VARIABLES.map(({ name }) => name))
    expect(shown.filter((name) => !known.has(name ?? ''))).toEqual([])
  })
})

const BROWSER = {
  image: { repository: 'vedette/agent' },
  drainSeconds: 270,
  terminationGracePeriodSeconds: 300,
  jobConcurrency: 2,
  resources: { limits: { memory: '4Gi' } },
  dataSizeLimit: '10Gi',
}
const EVERYTHING = {
  env: { LOG_LEVEL: 'DEBUG', BLOCKED_NETWORKS: '10.1.0.0/16' },
  podLabels: { team: 'ops' },
  imagePullSecrets: [{ name: 'registry' }],
  nodeSelector: { disk: 'ssd' },
  tolerations: [{ key: 'edge', operator: 'Exists' }],
  apiKey: { value: 'pl_12345678' },
  keda: { enabled: true },
}

describe('a release', () => {
  test.each([
    ['as it comes', {}],
    ['with Chromium and engines', BROWSER],
    ['with everything that can be set', EVERYTHING],
    ['without echoes and budget', { pingGroupRange: false, disruptionBudget: { enabled: false } }],
  ])('%s fits the program and Kubernetes', async (_, given) => {
    const objects = release(given)
    expect(objects.flatMap(strangePlaces)).toEqual([])
    await expectToFit(podOf(objects))
  })

  test('with raw sockets fits as root with NET_RAW', async () => {
    const pod = podOf(release({ rawSockets: true }))
    expect(await expectToFit(pod, { raw: true })).toMatch(/\/agent-uptime:/)
  })

  test('gives the agent what was set', () => {
    const objects = release(EVERYTHING)
    const env = Object.fromEntries(
      (podOf(objects).containers[0]?.env ?? []).map(({ name, value }) => [name, value]),
    )
    expect(env).toMatchObject({ ...EVERYTHING.env, PLATFORM_URL: GIVEN.platformUrl })
    expect(readSettings(podOf(objects).containers[0]?.image ?? '', env).port).toBe(8081)
    expect(kindOf(objects, 'Secret')).toMatchObject({ stringData: { API_KEY: 'pl_12345678' } })
  })

  test('leaves the number of agents to the autoscaler where there is one', () => {
    const replicas = (given: Loose) =>
      (kindOf(release(given), 'Deployment') as { spec: { replicas?: number } }).spec.replicas
    expect([replicas({}), replicas(EVERYTHING)]).toEqual([2, undefined])
    expect(kindOf(release({}), 'ScaledObject')).toBeUndefined()
  })

  test('selects its own pods, in every place', () => {
    const own = { 'app.kubernetes.io/name': 'vedette-agent', 'app.kubernetes.io/instance': 'edge' }
    const objects = release(EVERYTHING)
    const text = JSON.stringify(objects)
    const selectors = [...text.matchAll(/"matchLabels":(\{[^}]*\})/g)].map(([, one = '']) => one)
    expect(selectors.length).toBe(4)
    for (const one of selectors) expect(JSON.parse(one)).toEqual(own)
    expect(kindOf(objects, 'Deployment')).toMatchObject({
      spec: { template: { metadata: { labels: own } } },
    })
  })

  test('drains within its grace period by default', () => {
    expect(Number(values['terminationGracePeriodSeconds'])).toBeGreaterThanOrEqual(
      Number(values['drainSeconds']) + 20,
    )
  })
})

test('the notes render', () => {
  const notes = renderTemplate(read('templates/NOTES.txt'), {
    Values: over(values, GIVEN),
    Release: { Name: 'edge', Namespace: 'vedette' },
  })
  expect(notes).toContain('kubectl -n vedette create secret generic vedette-agent')
})
