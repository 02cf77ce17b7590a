// What the API of Kubernetes takes of the kinds that docker/ uses: a table of the keys that stand there, so
// that a misspelt one is found without a cluster.

/** A value: a word for a plain one, a list of one shape, or an object of known keys. */
export type Shape =
  | 'text'
  | 'number'
  | 'boolean'
  | 'text or number'
  | 'map of texts'
  | readonly [Shape]
  | { readonly [key: string]: Shape }

const metadata = {
  name: 'text',
  namespace: 'text',
  labels: 'map of texts',
  annotations: 'map of texts',
} as const
const selector = { matchLabels: 'map of texts' } as const
const probe = {
  httpGet: { path: 'text', port: 'text or number' },
  exec: { command: ['text'] },
  periodSeconds: 'number',
  timeoutSeconds: 'number',
  failureThreshold: 'number',
} as const
const resources = { requests: 'map of texts', limits: 'map of texts' } as const
const seccompProfile = { type: 'text', localhostProfile: 'text' } as const
const container = {
  name: 'text',
  image: 'text',
  imagePullPolicy: 'text',
  env: [{ name: 'text', value: 'text', $patch: 'text' }],
  ports: [{ name: 'text', containerPort: 'number', protocol: 'text' }],
  startupProbe: probe,
  livenessProbe: probe,
  readinessProbe: probe,
  resources,
  securityContext: {
    allowPrivilegeEscalation: 'boolean',
    readOnlyRootFilesystem: 'boolean',
    capabilities: { drop: ['text'], add: ['text'] },
  },
  volumeMounts: [{ name: 'text', mountPath: 'text', readOnly: 'boolean', $patch: 'text' }],
} as const
const pod = {
  terminationGracePeriodSeconds: 'number',
  automountServiceAccountToken: 'boolean',
  enableServiceLinks: 'boolean',
  imagePullSecrets: [{ name: 'text' }],
  securityContext: {
    runAsNonRoot: 'boolean',
    runAsUser: 'number',
    runAsGroup: 'number',
    fsGroup: 'number',
    fsGroupChangePolicy: 'text',
    seccompProfile,
    sysctls: [{ name: 'text', value: 'text' }],
  },
  topologySpreadConstraints: [
    {
      maxSkew: 'number',
      topologyKey: 'text',
      whenUnsatisfiable: 'text',
      labelSelector: selector,
    },
  ],
  nodeSelector: 'map of texts',
  tolerations: [{ key: 'text', operator: 'text', value: 'text', effect: 'text' }],
  containers: [container],
  volumes: [
    {
      name: 'text',
      $patch: 'text',
      configMap: { name: 'text' },
      emptyDir: { sizeLimit: 'text' },
      secret: { secretName: 'text', defaultMode: 'number', items: [{ key: 'text', path: 'text' }] },
    },
  ],
} as const
const template = {
  metadata: { labels: 'map of texts', annotations: 'map of texts' },
  spec: pod,
} as const
const peer = {
  podSelector: selector,
  namespaceSelector: selector,
  ipBlock: { cidr: 'text', except: ['text'] },
} as const
const policyPorts = [{ port: 'number', protocol: 'text' }] as const
const scaling = {
  stabilizationWindowSeconds: 'number',
  policies: [{ type: 'text', value: 'number', periodSeconds: 'number' }],
} as const
const scaledObject = {
  scaleTargetRef: { name: 'text' },
  pollingInterval: 'number',
  cooldownPeriod: 'number',
  minReplicaCount: 'number',
  maxReplicaCount: 'number',
  fallback: { failureThreshold: 'number', replicas: 'number' },
  advanced: {
    horizontalPodAutoscalerConfig: { behavior: { scaleUp: scaling, scaleDown: scaling } },
  },
  triggers: [
    { type: 'text', metadata: { serverAddress: 'text', query: 'text', threshold: 'text' } },
  ],
} as const

/** `apiVersion kind` → what stands in it beside those two and `metadata`. */
const KINDS: Readonly<Record<string, { readonly [key: string]: Shape }>> = {
  'v1 Namespace': {},
  'v1 Secret': { type: 'text', stringData: 'map of texts' },
  'v1 Service': {
    spec: {
      clusterIP: 'text',
      selector: 'map of texts',
      ports: [{ name: 'text', port: 'number', targetPort: 'text or number' }],
    },
  },
  'apps/v1 Deployment': {
    spec: {
      replicas: 'number',
      selector,
      strategy: {
        type: 'text',
        rollingUpdate: { maxSurge: 'text or number', maxUnavailable: 'text or number' },
      },
      template,
    },
  },
  'apps/v1 StatefulSet': {
    spec: {
      serviceName: 'text',
      replicas: 'number',
      selector,
      template,
      volumeClaimTemplates: [
        {
          metadata: { name: 'text' },
          spec: { accessModes: ['text'], resources: { requests: 'map of texts' } },
        },
      ],
    },
  },
  'policy/v1 PodDisruptionBudget': { spec: { maxUnavailable: 'text or number', selector } },
  'networking.k8s.io/v1 NetworkPolicy': {
    spec: {
      podSelector: selector,
      policyTypes: ['text'],
      ingress: [{ from: [peer], ports: policyPorts }],
      egress: [{ to: [peer], ports: policyPorts }],
    },
  },
  'keda.sh/v1alpha1 ScaledObject': { spec: scaledObject },
  'kustomize.config.k8s.io/v1beta1 Kustomization': {
    namespace: 'text',
    resources: ['text'],
    patches: [{ path: 'text' }],
    configMapGenerator: [
      { name: 'text', files: ['text'], options: { disableNameSuffixHash: 'boolean' } },
    ],
  },
}

/** Every place of an object of Kubernetes that its kind does not know, or that holds something else. */
export function strangePlaces(object: Readonly<Record<string, unknown>>): string[] {
  const kind = `${String(object['apiVersion'])} ${String(object['kind'])}`
  const own = KINDS[kind]
  if (own === undefined) return [`${kind} is no kind that this table knows`]
  return strange(object, { apiVersion: 'text', kind: 'text', metadata, ...own }, kind)
}

function strange(value: unknown, shape: Shape, place: string): string[] {
  if (typeof shape === 'string') return isPlain(value, shape) ? [] : [`${place} is not ${shape}`]
  if (Array.isArray(shape)) {
    if (!Array.isArray(value)) return [`${place} is not a list`]
    return value.flatMap((one, at) => strange(one, shape[0] as Shape, `${place}[${at}]`))
  }
  if (!isObject(value)) return [`${place} is not an object`]
  const keys = shape as Readonly<Record<string, Shape>>
  return Object.entries(value).flatMap(([key, inner]) => {
    const known = keys[key]
    if (known === undefined) return [`${place}.${key} is not known`]
    return strange(inner, known, `${place}.${key}`)
  })
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isPlain(value: unknown, shape: string): boolean {
  if (shape === 'text') return typeof value === 'string'
  if (shape === 'map of texts') {
    return isObject(value) && Object.values(value).every((one) => typeof one === 'string')
  }
  return shape.split(' or ').includes(typeof value === 'string' ? 'text' : typeof value)
}
