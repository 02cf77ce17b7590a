// The objects of docker/kubernetes must fit the program: known settings, ports and paths that it serves, existing
// metrics, the restricted standard; and only fields that Kubernetes knows, as kubectl sends them.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { VARIABLE_TABLE } from '../../src/agent/config.ts'
import { readMonitorsFile } from '../../src/agent/monitors-file/file.ts'
import { MONITOR_TYPES } from '../../src/monitors/registry.ts'
import {
  CLUSTER_TOOLS_PROBLEM,
  type ClusterTools,
  clusterTools,
} from '../support/container/cluster-tools.ts'
import {
  expectToFit,
  IMAGES,
  isServed,
  type Pod,
  readSettings,
} from '../support/container/deployed-agent.ts'
import { strangeIn } from '../support/container/kubernetes-types.ts'
import { INSTALL_MS_MAX } from '../support/scripts/toolchains.ts'

const folder = join(import.meta.dirname, '../../docker/kubernetes')

/** No Kubernetes object, but the source of the ConfigMap of an agent without a platform. */
const MONITORS = 'agent-file/monitors.yaml'

/** Applied separately. */
const ALONE = ['keda.yaml', 'namespace.yaml', 'network-policy.yaml']

interface Loose {
  [key: string]: unknown
}

interface ParsedObject extends Loose {
  kind: string
  metadata: { name: string; namespace?: string; labels?: Record<string, string> }
  spec: Loose & { template: { metadata?: Labels; spec: Pod }; selector: { matchLabels: object } }
}

interface Labels {
  labels: Record<string, string>
  annotations?: Record<string, string>
}

function objectsIn(text: string): ParsedObject[] {
  return parseAllDocuments(text).map((document) => {
    expect(document.errors).toEqual([])
    return document.toJS() as ParsedObject
  })
}

const documents = (path: string) => objectsIn(readFileSync(join(folder, path), 'utf8'))

let tools: ClusterTools
beforeAll(async () => {
  if (CLUSTER_TOOLS_PROBLEM === undefined) tools = await clusterTools()
}, INSTALL_MS_MAX)

/** Skips the tests of a block where kubectl cannot run. */
function needTools(): void {
  beforeEach(({ skip }) => skip(CLUSTER_TOOLS_PROBLEM !== undefined, CLUSTER_TOOLS_PROBLEM))
}

/** The objects that `kubectl apply -k` applies. */
const kustomized = async (name: string) =>
  objectsIn(await tools.kubectl('kustomize', join(folder, name)))

const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
  (name) => name.endsWith('.yaml') && name !== MONITORS,
)
const all = files.flatMap((file) => documents(file).map((object) => ({ file, object })))
const find = (kind: string, name: string, from = all) => {
  const found = from.find((one) => one.object.kind === kind && one.object.metadata.name === name)
  if (found === undefined) throw new Error(`there is no ${kind} ${name}`)
  return found.object
}

describe('Kubernetes', () => {
  needTools()
  const kustomizations = files.filter((file) => file.endsWith('kustomization.yaml'))

  test.each(kustomizations.map((file) => dirname(file)))(
    'accepts the objects of %s',
    async (name) => {
      expect(await strangeIn(await kustomized(name))).toBe('')
    },
  )

  test.each(ALONE)('accepts %s', async (file) => {
    expect(await strangeIn(documents(file))).toBe('')
  })

  test('rejects misspelt fields at any depth', async () => {
    const base = find('Deployment', 'vedette-agent')
    const misspelt = (key: string) =>
      strangeIn([JSON.parse(JSON.stringify(base).replace(`"${key}"`, `"${key}s"`)) as ParsedObject])
    for (const key of ['replicas', 'periodSeconds', 'sizeLimit', 'readOnlyRootFilesystem']) {
      expect(await misspelt(key)).toContain(`'"${key}s"' does not exist`)
    }
  })
})

test('every file belongs to a kustomization or is applied separately', () => {
  const used = files
    .filter((file) => file.endsWith('kustomization.yaml'))
    .flatMap((file) => {
      const { resources = [], patches = [] } = documents(file)[0] as {
        resources?: string[]
        patches?: { path: string }[]
      }
      return [...resources, ...patches.map(({ path }) => path)]
        .filter((path) => path.endsWith('.yaml'))
        .map((path) => join(file, '..', path))
        .concat(file)
    })
  expect(files.toSorted()).toEqual([...used, ...ALONE].toSorted())
})

const agent = find('Deployment', 'vedette-agent')
const deployed = async (name: string) =>
  find(
    'Deployment',
    'vedette-agent',
    (await kustomized(name)).map((object) => ({ file: name, object })),
  )

describe('the agent', () => {
  needTools()

  test('fits the program', async () => {
    expect(await expectToFit(agent.spec.template.spec)).toMatch(/\/agent-uptime:/)
  })

  test('fits with Chromium and engines', async () => {
    const pod = (await deployed('agent-browser')).spec.template.spec
    expect(await expectToFit(pod)).toMatch(/\/agent:/)
  })

  test('fits with a monitors file, which is valid', async () => {
    const { spec } = await deployed('agent-file')
    expect(await expectToFit(spec.template.spec)).toMatch(/\/agent-uptime:/)
    expect(spec['replicas']).toBe(1)
    const { env, volumeMounts } = spec.template.spec.containers[0] ?? { env: [], volumeMounts: [] }
    const names = env.map(({ name }) => name)
    expect(names).not.toContain('PLATFORM_URL')
    expect(names).not.toContain('API_KEY_FILE')
    const path = env.find(({ name }) => name === 'MONITORS_FILE')?.value
    const mount = volumeMounts.find(({ name }) => name === 'monitors')?.mountPath
    expect(`${mount}/monitors.yaml`).toBe(path)
    const reading = await readMonitorsFile(join(folder, MONITORS), {}, MONITOR_TYPES)
    expect(reading).toMatchObject({ ok: true })
  })

  test('fits with raw sockets, in a namespace that allows them', async () => {
    const { metadata, spec } = await deployed('agent-raw')
    await expectToFit(spec.template.spec, { raw: true })
    expect(spec.template.spec.securityContext['sysctls'] ?? []).toEqual([])
    const { labels = {}, name } = find('Namespace', 'vedette-raw').metadata
    expect(labels['pod-security.kubernetes.io/enforce']).toBe('privileged')
    expect(metadata.namespace).toBe(name)
  })

  test('is replaced without a gap, and is spread over nodes', () => {
    expect(agent.spec).toMatchObject({
      replicas: 2,
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0 } },
      template: {
        spec: { topologySpreadConstraints: [{ topologyKey: 'kubernetes.io/hostname' }, {}] },
      },
    })
  })

  test('may send echoes as user 10001', () => {
    expect(agent.spec.template.spec.securityContext['sysctls']).toEqual([
      { name: 'net.ipv4.ping_group_range', value: '0 2147483647' },
    ])
  })

  test('calls the platform of the same folder', () => {
    const { env } = agent.spec.template.spec.containers[0] ?? { env: [] }
    const { hostname, port } = new URL(env.find((one) => one.name === 'PLATFORM_URL')?.value ?? '')
    const [name, namespace] = hostname.split('.')
    const service = find('Service', name ?? '')
    expect(documents('platform/kustomization.yaml')[0]).toMatchObject({ namespace })
    expect(service.spec['ports']).toMatchObject([{ port: Number(port) }])
  })
})

describe('the platform', () => {
  const platform = find('StatefulSet', 'vedette-platform')
  test('fits the program', async () => {
    expect(await expectToFit(platform.spec.template.spec)).toMatch(/\/platform:/)
  })

  test('stores its data on a persistent volume', () => {
    expect(platform.spec).toMatchObject({ volumeClaimTemplates: [{ metadata: { name: 'data' } }] })
  })
})

test.each(
  all.filter(
    ({ object }) => object.spec?.template !== undefined && object.spec.selector !== undefined,
  ),
)('$file: $object.metadata.name selects its own pods', ({ object }) => {
  expect(object.spec.template.metadata?.labels).toMatchObject(object.spec.selector.matchLabels)
})

const labelled = all.map(({ object }) => object.spec?.template?.metadata?.labels ?? {})
const isThere = (labels: object) =>
  labelled.some((one) => Object.entries(labels).every(([key, value]) => one[key] === value))

test.each([
  ['Service', 'vedette-platform'],
  ['Service', 'vedette-postgres'],
])('%s %s leads to existing pods and ports', (kind, name) => {
  const { selector, ports } = find(kind, name).spec as unknown as {
    selector: object
    ports: { targetPort: string; port: number }[]
  }
  expect(isThere(selector)).toBe(true)
  const [container] = find('StatefulSet', name).spec.template.spec.containers
  const found = container?.ports.find((one) => one.name === ports[0]?.targetPort)
  expect(found?.containerPort).toBe(ports[0]?.port)
})

test('the disruption budget is of the agents', () => {
  const budget = find('PodDisruptionBudget', 'vedette-agent')
  expect(budget.spec.selector).toEqual(agent.spec.selector)
})

test.each(all.filter(({ object }) => object.kind === 'NetworkPolicy'))(
  'the network policy $object.metadata.name opens the port that its pods serve',
  ({ object }) => {
    const { podSelector, ingress } = object.spec as unknown as {
      podSelector: { matchLabels: Record<string, string> }
      ingress: { ports: { port: number }[] }[]
    }
    const pods = all.find(
      (one) =>
        one.object.spec?.template?.metadata?.labels['app.kubernetes.io/name'] ===
          podSelector.matchLabels['app.kubernetes.io/name'] &&
        one.object.spec.selector !== undefined,
    )
    const ports = pods?.object.spec.template.spec.containers[0]?.ports ?? []
    expect(ingress.flatMap((rule) => rule.ports.map(({ port }) => port))).toEqual(
      ports.map(({ containerPort }) => containerPort),
    )
  },
)

test('agents reach the DNS cache of their node, and no other link-local address', () => {
  const { egress } = find('NetworkPolicy', 'vedette-agent').spec as unknown as {
    egress: { to: { ipBlock: { cidr: string } }[]; ports?: { port: number; protocol: string }[] }[]
  }
  const linkLocal = egress.filter(({ to }) =>
    to.some(({ ipBlock }) => ipBlock.cidr.startsWith('169.254.')),
  )
  const allowed = linkLocal.flatMap(({ ports = [] }) =>
    ports.map(({ port, protocol }) => `${protocol} ${port}`),
  )
  expect([linkLocal.length, allowed]).toEqual([1, ['UDP 53', 'TCP 53']])
})

describe('agents reach the platform through its network policy', () => {
  needTools()
  interface Peer {
    podSelector?: { matchLabels: Record<string, string> }
    namespaceSelector?: { matchLabels: Record<string, string> }
  }
  const policy = find('NetworkPolicy', 'vedette-platform')
  const rules = policy.spec['ingress'] as { from: Peer[] }[]

  test.each(['agent', 'agent-browser', 'agent-raw'])('of %s', async (name) => {
    const objects = await kustomized(name)
    const { metadata, spec } = objects.find(({ kind }) => kind === 'Deployment') as ParsedObject
    const labels = spec.template.metadata?.labels ?? {}
    const isSame = metadata.namespace === policy.metadata.namespace
    const ofNamespace = { 'kubernetes.io/metadata.name': metadata.namespace }
    const covers = (wanted: Record<string, string> = {}, given: Record<string, unknown>) =>
      Object.entries(wanted).every(([key, value]) => given[key] === value)
    const fits = ({ podSelector, namespaceSelector }: Peer) =>
      covers(podSelector?.matchLabels, labels) &&
      (namespaceSelector === undefined
        ? isSame
        : covers(namespaceSelector.matchLabels, ofNamespace))
    expect(rules.flatMap(({ from }) => from).filter(fits)).toHaveLength(1)
  })
})

test.each(all.filter(({ object }) => object.spec?.template?.metadata?.annotations !== undefined))(
  'Prometheus is led to what $object.metadata.name serves',
  async ({ object }) => {
    const { metadata, spec } = object.spec.template
    const annotations = metadata?.annotations ?? {}
    const [{ image, env } = { image: '', env: [] }] = spec.containers
    const settings = readSettings(
      image,
      Object.fromEntries(env.map(({ name, value }) => [name, value])),
    )
    expect(Number(annotations['prometheus.io/port'])).toBe(settings.metricsPort)
    const program = IMAGES[image]
    expect(await isServed(annotations['prometheus.io/path'] ?? '', program)).toBe(true)
  },
)

test('a scaled object counts as many runs per agent as an agent allows', async ({ skip }) => {
  skip(CLUSTER_TOOLS_PROBLEM !== undefined, CLUSTER_TOOLS_PROBLEM)
  const { scaleTargetRef, triggers, minReplicaCount } = find('ScaledObject', 'vedette-agent')
    .spec as unknown as {
    scaleTargetRef: { name: string }
    triggers: { metadata: { threshold: string } }[]
    minReplicaCount: number
  }
  expect(scaleTargetRef.name).toBe(agent.metadata.name)
  expect(minReplicaCount).toBeGreaterThanOrEqual(2)
  const { env } = (await deployed('agent-browser')).spec.template.spec.containers[0] ?? { env: [] }
  const atOnce = env.find(({ name }) => name === 'JOB_CONCURRENCY')?.value
  expect(triggers.map(({ metadata }) => metadata.threshold)).toEqual([atOnce])
  expect(VARIABLE_TABLE.JOB_CONCURRENCY.parse(atOnce ?? '')).toEqual({ value: Number(atOnce) })
})
