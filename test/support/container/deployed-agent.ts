// Checks of every pod with one of our images, in any source: known and valid settings, ports and paths that the
// program serves, enough time to drain, the restricted standard.
import { expect } from 'vitest'
import { readAgentConfig, VARIABLES as AGENT_VARIABLES } from '../../../src/agent/config.ts'
import {
  readPlatformConfig,
  VARIABLES as PLATFORM_VARIABLES,
} from '../../../src/platform/config.ts'
import { VERSION } from '../../../src/contract/versions.ts'
import { createHealth } from '../../../src/agent/health.ts'
import { createMetricsApp, createProbes } from '../../../src/platform/http/probes.ts'

/** A pod of Kubernetes, with the fields of these checks. */
export interface Pod {
  terminationGracePeriodSeconds: number
  securityContext: Record<string, unknown>
  containers: PodContainer[]
  volumes: { name: string; emptyDir?: object; secret?: { items?: { path: string }[] } }[]
}

export interface PodContainer {
  name: string
  image: string
  env: { name: string; value: string }[]
  ports: { name: string; containerPort: number }[]
  startupProbe?: Probe
  livenessProbe?: Probe
  readinessProbe?: Probe
  securityContext: Record<string, unknown>
  volumeMounts: { name: string; mountPath: string; readOnly?: boolean }[]
}

interface Probe {
  httpGet?: { path: string; port: string | number }
}

/** Time to deliver after the drain, as in the README. Seconds. */
const AFTER_DRAIN_SECONDS = 20

/** Content of mounted secret files. */
const SECRETS: Readonly<Record<string, string>> = {
  API_KEY: 'pl_12345678',
  DATABASE_URL: 'postgresql://vedette:secret@vedette-postgres:5432/vedette',
  SECRETS_KEY: '0'.repeat(64),
  ADMIN_API_KEY: '1'.repeat(64),
  ACCOUNT_ID: '0b9f1e3c-8f3a-4f5e-9d62-0a1b2c3d4e5f',
}

/** The images of docker/build, by program. */
export const IMAGES: Readonly<Record<string, 'agent' | 'platform'>> = {
  [`vedette/agent-uptime:${VERSION}`]: 'agent',
  [`vedette/agent:${VERSION}`]: 'agent',
  [`vedette/platform:${VERSION}`]: 'platform',
}

function secretAt(path: string): string {
  const name = path.split('/').at(-1) ?? ''
  return SECRETS[name.replaceAll('-', '_').toUpperCase()] ?? ''
}

/** Effective settings of a container, read by the program: seconds of its drain, and its ports. */
export interface ReadSettings {
  drainSeconds: number
  port: number
  metricsPort: number | undefined
  dataDir: string | undefined
}

/** Reads variables as the program does; every one must be known and valid. */
export function readSettings(
  image: string,
  env: Readonly<Record<string, string | undefined>>,
  readText: (path: string) => string = secretAt,
): ReadSettings {
  const program = IMAGES[image]
  expect(program, `${image} is built by docker/build`).toBeDefined()
  const isAgent = program === 'agent'
  const variables = isAgent ? AGENT_VARIABLES : PLATFORM_VARIABLES
  const known = new Set(variables.map(({ name }) => name))
  const strange = Object.keys(env).filter(
    (name) => !known.has(name) && !known.has(name.replace(/_FILE$/, '')),
  )
  expect(strange, `variables of ${image}`).toEqual([])
  // The images set it; see docker/Dockerfile.
  const whole = { DATA_DIR: '/var/lib/vedette', ...env }
  if (isAgent) {
    const { config, problems, warnings } = readAgentConfig({ env: whole, stdout: {}, readText })
    expect({ problems, warnings }).toEqual({ problems: [], warnings: [] })
    const { healthPort: port, dataDir } = config
    return { drainSeconds: config.drainMs / 1000, port, metricsPort: port, dataDir }
  }
  const { config, problems } = readPlatformConfig(whole, readText)
  expect(problems).toEqual([])
  const drainSeconds = (config.drainMs + config.drainDelayMs) / 1000
  const { port, metricsPort, dataDir } = config
  return { drainSeconds, port, metricsPort, dataDir }
}

/** Checks a pod with one of our images against the program; resolves with its image. */
export async function expectToFit(pod: Pod, { raw = false } = {}): Promise<string> {
  const [container] = pod.containers
  if (container === undefined) throw new Error('the pod has no container')
  const env = Object.fromEntries(container.env.map(({ name, value }) => [name, value]))
  const settings = readSettings(container.image, env)
  expectSecretsWhere(pod, container, env)
  const program = IMAGES[container.image]
  const afterDrain = program === 'agent' ? AFTER_DRAIN_SECONDS : 5
  expect(pod.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(
    settings.drainSeconds + afterDrain,
  )
  const ports = new Set([settings.port, settings.metricsPort])
  expect(new Set(container.ports.map(({ containerPort }) => containerPort))).toEqual(ports)
  await expectProbes(container, program)
  expectRestricted(pod, container, raw)
  const data = container.volumeMounts.filter(({ readOnly }) => readOnly !== true)
  expect(data.map(({ mountPath }) => mountPath)).toEqual([settings.dataDir])
  return container.image
}

/** NAME_FILE; MONITORS_FILE is a variable of its own. */
const SECRET_FILE = /^(?!MONITORS_).*_FILE$/

/** Every NAME_FILE is in a mounted Secret, and the Secret has that key. */
function expectSecretsWhere(pod: Pod, container: PodContainer, env: Record<string, string>): void {
  for (const [name, path] of Object.entries(env).filter(([one]) => SECRET_FILE.test(one))) {
    const mount = container.volumeMounts.find(({ mountPath }) => path.startsWith(`${mountPath}/`))
    expect(mount, `${name} lies in a volume`).toMatchObject({ readOnly: true })
    const secret = pod.volumes.find((volume) => volume.name === mount?.name)?.secret
    expect(secret, `${name} lies in a secret`).toBeDefined()
    const key = path.slice((mount?.mountPath.length ?? 0) + 1)
    expect(key).toBe(name.replace(/_FILE$/, ''))
    if (secret?.items !== undefined) {
      expect(secret.items.map((item) => item.path)).toContain(key)
    }
  }
}

async function expectProbes(
  container: PodContainer,
  program: 'agent' | 'platform' | undefined,
): Promise<void> {
  const { startupProbe, livenessProbe, readinessProbe } = container
  const [port] = container.ports
  for (const probe of [startupProbe, livenessProbe, readinessProbe]) {
    expect([port?.name, port?.containerPort]).toContain(probe?.httpGet?.port)
    expect(await isServed(probe?.httpGet?.path ?? '', program)).toBe(true)
  }
  expect(livenessProbe?.httpGet?.path).toBe('/-/liveness')
  expect(readinessProbe?.httpGet?.path).toBe('/-/readiness')
}

/** Whether the probes of the program, or its metrics, answer at `path`. */
export async function isServed(
  path: string,
  program: 'agent' | 'platform' | undefined,
): Promise<boolean> {
  const app = program === 'agent' ? agentProbes() : platformProbes()
  const response = await app.request(path)
  await response.text()
  return response.status !== 404
}

function agentProbes() {
  return createHealth({
    phase: () => 'running',
    hasMonitors: () => true,
    refused: () => undefined,
    unready: () => undefined,
    warnings: () => [],
    tickAgeMs: () => 0,
    facts: () => ({}),
    async *metrics() {},
  })
}

function platformProbes() {
  return createProbes({
    phase: () => 'running',
    waitingFor: () => '',
    databaseProblem: () => Promise.resolve(undefined),
    facts: () => ({}),
  }).route(
    '/',
    createMetricsApp(() => Promise.resolve('')),
  )
}

/** The restricted standard of Kubernetes, plus the requirements of an agent with raw sockets. */
function expectRestricted(pod: Pod, container: PodContainer, raw: boolean): void {
  const user = raw ? 0 : 10_001
  expect(pod.securityContext).toMatchObject({
    runAsNonRoot: !raw,
    runAsUser: user,
    runAsGroup: user,
    fsGroup: 10_001,
    seccompProfile: { type: 'RuntimeDefault' },
  })
  expect(container.securityContext).toEqual({
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: raw ? { drop: ['ALL'], add: ['NET_RAW'] } : { drop: ['ALL'] },
  })
}
