// The chart of the agent must render like docker/kubernetes, by Helm itself. The schema knows every value; the objects
// are valid for Kubernetes and fit the program, with any switch; a wrong value is refused with a clear message.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { parse, parseAllDocuments, stringify } from 'yaml'
import { VERSION } from '../../src/contract/versions.ts'
import { VARIABLES } from '../../src/agent/config.ts'
import {
  CLUSTER_TOOLS_PROBLEM,
  type ClusterTools,
  clusterTools,
} from '../support/container/cluster-tools.ts'
import { expectToFit, readSettings, type Pod } from '../support/container/deployed-agent.ts'
import { strangeIn } from '../support/container/kubernetes-types.ts'
import { temporaryFile } from '../support/temporary-folder.ts'
import { INSTALL_MS_MAX } from '../support/scripts/toolchains.ts'

const folder = join(import.meta.dirname, '../../docker/helm/vedette-agent')
const read = (path: string) => readFileSync(join(folder, path), 'utf8')

type Loose = Record<string, unknown>

const chart = parse(read('Chart.yaml')) as Loose
const values = parse(read('values.yaml')) as Loose
const schema = JSON.parse(read('values.schema.json')) as Loose

const DIGEST = `sha256:${'0123456789abcdef'.repeat(4)}`
const GIVEN = { platformUrl: 'https://monitoring.example.com' }

let tools: ClusterTools
beforeEach(({ skip }) => skip(CLUSTER_TOOLS_PROBLEM !== undefined, CLUSTER_TOOLS_PROBLEM))
beforeAll(async () => {
  if (CLUSTER_TOOLS_PROBLEM === undefined) tools = await clusterTools()
}, INSTALL_MS_MAX)

/** Output of `helm template` with these values over those of the chart. */
async function template(given: Loose): Promise<string> {
  const file = temporaryFile('values.yaml', stringify(given))
  return tools.helm('template', 'edge', folder, '--namespace', 'vedette', '--values', file)
}

/** The same as objects that are valid for Kubernetes. */
async function release(given: Loose = {}): Promise<Loose[]> {
  const text = await template({ ...GIVEN, ...given })
  const objects = parseAllDocuments(text).map((one) => one.toJS() as Loose)
  expect(await strangeIn(objects)).toBe('')
  return objects
}

/** The error message of Helm. */
async function refusal(given: Loose): Promise<string> {
  const { stderr } = (await template(given).catch((error: unknown) => error)) as { stderr?: string }
  return stderr ?? 'nothing'
}

const kindOf = (objects: Loose[], kind: string) => objects.find((one) => one['kind'] === kind)
const podOf = (objects: Loose[]) =>
  (kindOf(objects, 'Deployment') as { spec: { template: { spec: Pod } } }).spec.template.spec

test('the chart is of this version', () => {
  expect(chart).toMatchObject({ version: VERSION, appVersion: VERSION })
})

describe('values', () => {
  test('need the address of the platform, and nothing else', async () => {
    expect(await refusal({})).toContain('set platformUrl to the address of the platform')
    expect(await release()).not.toEqual([])
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

  test.each<[string, Loose, string]>([
    ['a misspelt name', { replicas: 3 }, "'replicas' not allowed"],
    ['a key of something else', { apiKey: { value: 'vk_12345678' } }, "'/apiKey/value'"],
    ['an address without a protocol', { platformUrl: 'example.com' }, "'/platformUrl'"],
    ['a variable that the chart sets itself', { env: { DRAIN_SECONDS: '5' } }, "'DRAIN_SECONDS'"],
    [
      'a number where the variable is a text',
      { env: { UPTIME_CONCURRENCY: 5 } },
      "'/env/UPTIME_CONCURRENCY': got number, want string",
    ],
    ['more runs at once than the agent allows', { jobConcurrency: 11 }, 'got 11, want 10'],
    ['a queue that agents do not have', { keda: { queue: 'browser' } }, "'uptime', 'scripted'"],
    ['no agent that could have a queue', { keda: { minReplicaCount: 0 } }, 'got 0, want 1'],
    ['a volume that the chart has itself', { volumes: [{ name: 'data' }] }, "'/volumes/0/name'"],
    ['too little time to drain', { drainSeconds: 270 }, 'must be at least 290'],
    ['a digest in place of the tag', { image: { tag: DIGEST } }, "'/image/tag'"],
    ['a digest that is none', { image: { digest: 'sha256:1' } }, "'/image/digest'"],
    [
      'a label that selects the pods',
      { podLabels: { 'app.kubernetes.io/name': 'x' } },
      "'app.kubernetes.io/name'",
    ],
  ])('are refused with %s', async (_, given, expectedText) => {
    expect(await refusal({ ...GIVEN, ...given })).toContain(expectedText)
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
  volumes: [{ name: 'authorities', configMap: { name: 'vedette-authorities' } }],
  volumeMounts: [{ name: 'authorities', mountPath: '/etc/vedette', readOnly: true }],
}

const SECRET_VALUE = { valueFrom: { secretKeyRef: { name: 'a', key: 'b' } } }
const ADVANCED = {
  image: { digest: DIGEST },
  nameOverride: 'berlin',
  env: { API_KEY_PREVIOUS: SECRET_VALUE },
  envFrom: [{ secretRef: { name: 'vedette-secrets' } }],
  priorityClassName: 'high',
  serviceAccount: { name: 'watcher' },
  topologySpreadConstraints: [],
  strategy: { type: 'Recreate' },
  disruptionBudget: { minAvailable: '50%' },
  keda: { enabled: true, fallback: { replicas: 3 } },
  extraManifests: [
    { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: '{{ .Release.Name }}-more' } },
  ],
}

describe('advanced values', () => {
  test('stand where Kubernetes expects them', async () => {
    const objects = await release(ADVANCED)
    const pod = podOf(objects)
    expect(pod).toMatchObject({ priorityClassName: 'high', serviceAccountName: 'watcher' })
    expect(pod).not.toHaveProperty('topologySpreadConstraints')
    expect(pod.containers[0]).toMatchObject({
      image: `vedette/agent-uptime@${DIGEST}`,
      env: expect.arrayContaining([{ name: 'API_KEY_PREVIOUS', ...SECRET_VALUE }]),
      envFrom: ADVANCED.envFrom,
    })
    expect(kindOf(objects, 'Deployment')).toMatchObject({
      metadata: { name: 'berlin' },
      spec: { strategy: { type: 'Recreate' } },
    })
    expect(kindOf(objects, 'PodDisruptionBudget')).toMatchObject({
      metadata: { name: 'berlin' },
      spec: { minAvailable: '50%' },
    })
    expect(kindOf(objects, 'PodDisruptionBudget')).not.toHaveProperty('spec.maxUnavailable')
    expect(kindOf(objects, 'ScaledObject')).toMatchObject({
      spec: { scaleTargetRef: { name: 'berlin' }, fallback: { failureThreshold: 4, replicas: 3 } },
    })
    expect(kindOf(objects, 'ConfigMap')).toMatchObject({ metadata: { name: 'edge-more' } })
  })

  test('spread over what is given', async () => {
    const constraint = { maxSkew: 2, topologyKey: 'rack', whenUnsatisfiable: 'DoNotSchedule' }
    const given = { topologySpreadConstraints: [constraint] }
    expect(podOf(await release(given))).toMatchObject(given)
  })
})

describe('a release', () => {
  test.each([
    ['as it comes', {}],
    ['with Chromium and engines', BROWSER],
    ['with everything that can be set', EVERYTHING],
    ['without echoes and budget', { pingGroupRange: false, disruptionBudget: { enabled: false } }],
  ])('%s fits the program and Kubernetes', async (_, given) => {
    expect(await expectToFit(podOf(await release(given)))).toMatch(/^vedette\/agent/)
  })

  test('with raw sockets fits as root with NET_RAW', async () => {
    const pod = podOf(await release({ rawSockets: true }))
    expect(await expectToFit(pod, { raw: true })).toMatch(/\/agent-uptime:/)
  })

  test('leaves the user to a cluster that chooses it', async () => {
    const { securityContext } = podOf(await release({ fixedUser: false }))
    expect(Object.keys(securityContext).toSorted()).toEqual([
      'runAsNonRoot',
      'seccompProfile',
      'sysctls',
    ])
  })

  test('gives the agent what was set', async () => {
    const objects = await release(EVERYTHING)
    expect(podOf(objects).containers[0]?.volumeMounts).toContainEqual(EVERYTHING.volumeMounts[0])
    expect(podOf(objects).volumes).toContainEqual(EVERYTHING.volumes[0])
    const env = Object.fromEntries(
      (podOf(objects).containers[0]?.env ?? []).map(({ name, value }) => [name, value]),
    )
    expect(env).toMatchObject({ ...EVERYTHING.env, PLATFORM_URL: GIVEN.platformUrl })
    expect(readSettings(podOf(objects).containers[0]?.image ?? '', env).port).toBe(8081)
    expect(kindOf(objects, 'Secret')).toMatchObject({ stringData: { API_KEY: 'pl_12345678' } })
  })

  test('leaves the number of agents to the autoscaler where there is one', async () => {
    const replicas = (objects: Loose[]) =>
      (kindOf(objects, 'Deployment') as { spec: { replicas?: number } }).spec.replicas
    const [without, scaled] = [await release(), await release(EVERYTHING)]
    expect([replicas(without), replicas(scaled)]).toEqual([2, undefined])
    expect(kindOf(without, 'ScaledObject')).toBeUndefined()
  })

  test.each([
    ['as many as one agent runs', { jobConcurrency: 3, keda: { enabled: true } }, '3'],
    ['half of what one agent runs', { keda: { enabled: true, queue: 'uptime' } }, '128'],
    ['what is set', { keda: { enabled: true, threshold: 7 } }, '7'],
  ])('scales by %s', async (_, given, threshold) => {
    expect(kindOf(await release(given), 'ScaledObject')).toMatchObject({
      spec: { triggers: [{ metadata: { threshold } }] },
    })
  })

  test('restarts its agents for another key', async () => {
    const annotations = async (value: string) => {
      const deployment = kindOf(await release({ apiKey: { value } }), 'Deployment')
      return (deployment as { spec: { template: { metadata: object } } }).spec.template.metadata
    }
    expect(await annotations('pl_12345678')).not.toEqual(await annotations('pl_87654321'))
  })

  test('selects its own pods, in every place', async () => {
    const own = { 'app.kubernetes.io/name': 'vedette-agent', 'app.kubernetes.io/instance': 'edge' }
    const objects = await release(EVERYTHING)
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

test('the linter has no complaints', async () => {
  expect(await tools.helm('lint', '--strict', folder)).toContain('0 chart(s) failed')
})

test('the notes render', async () => {
  const args = ['--namespace', 'vedette', '--set', `platformUrl=${GIVEN.platformUrl}`]
  const said = await tools.helm('install', 'edge', folder, '--dry-run=client', ...args)
  expect(said).toContain('kubectl -n vedette create secret generic vedette-agent')
})
