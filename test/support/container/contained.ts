// A container of one of our images as the README runs it: read-only, without any capability, in a separate network,
// read by its log and its probes, and ended by `docker stop`.
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { GenericContainer, type StartedTestContainer, type WaitStrategy } from 'testcontainers'
import { afterEach } from 'vitest'
import { engine, OWN_LABEL, removeOwn } from './container-engine.ts'
import { type Image, tagOf } from './images.ts'

/** A line of the log; what is no JSON is `{ text }`. */
export type ContainerLine = Record<string, unknown> & { msg?: string; text?: string }

/** Options of a container. */
export interface ContainerOptions {
  image: Image
  /** A network's name, `none`, or `container:<id>`. */
  network: string
  alias?: string
  env?: Record<string, string>
  command?: string[]
  entrypoint?: string[]
  /** At /var/lib/vedette; without it Docker makes a nameless one. */
  volume?: string
  /** Files of this machine by their path in the container, read-only. */
  files?: Record<string, string>
  tmpfs?: Record<string, string>
  user?: string
  capabilities?: string[]
  sysctls?: Record<string, string>
  /** No swap beyond it. */
  memoryBytes?: number
  sharedMemoryBytes?: number
  /** Starts again whenever it ends by itself. */
  restarts?: boolean
}

/** A container that was started. */
export interface Contained {
  readonly id: string
  /** In the network that it was started in. */
  readonly address: string
  readonly lines: ContainerLine[]
  /** All lines of its log as text. */
  said(): string
  /** The first line, past or future, that fits; rejects when the container ends without one. */
  line(fits: (line: ContainerLine) => boolean): Promise<ContainerLine>
  /** Its exit code, once everything that it wrote is read. */
  readonly ended: Promise<number>
  /** Requests a path of its probes; status 0 without an answer. */
  probe(path: string, port?: number): Promise<{ status: number; text: string }>
  exec(...args: string[]): Promise<{ code: number; text: string }>
  /** `docker stop`; resolves with the exit code and what it took. */
  stop(graceSeconds?: number): Promise<{ code: number; ms: number }>
}

afterEach(removeOwn)

/** A container that ends at once is no failed start: tests inspect it. */
const AT_ONCE: WaitStrategy = {
  waitUntilReady: () => Promise.resolve(),
  withStartupTimeout: () => AT_ONCE,
  isStartupTimeoutSet: () => false,
  getStartupTimeout: () => 0,
}

/** `none`, or that of another container. */
const isShared = (network: string) => network === 'none' || network.startsWith('container:')

/** The documented `docker run`, with options that the library does not offer. */
class RestrictedContainer extends GenericContainer {
  constructor(options: ContainerOptions) {
    super(tagOf(options.image))
    this.hostConfig.ReadonlyRootfs = true
    // No DNS query leaves: only names of the container's own network resolve.
    if (!isShared(options.network)) this.hostConfig.Dns = ['127.0.0.1']
    if (options.sysctls !== undefined) this.hostConfig.Sysctls = options.sysctls
    if (options.restarts === true) this.hostConfig.RestartPolicy = { Name: 'unless-stopped' }
    if (options.memoryBytes !== undefined) {
      this.hostConfig.Memory = options.memoryBytes
      this.hostConfig.MemorySwap = options.memoryBytes
    }
  }
}

function prepared(options: ContainerOptions): GenericContainer {
  const { env = {}, files = {}, volume } = options
  const container = new RestrictedContainer(options)
    .withLabels({ ...OWN_LABEL })
    .withNetworkMode(options.network)
    .withDroppedCapabilities('ALL')
    .withSecurityOpt('no-new-privileges')
    .withEnvironment(env)
    .withBindMounts([
      ...Object.entries(files).map(([target, source]) => ({ source, target, mode: 'ro' as const })),
      ...(volume === undefined ? [] : [{ source: volume, target: '/var/lib/vedette' }]),
    ])
    .withWaitStrategy(AT_ONCE)
  if (options.alias !== undefined) container.withNetworkAliases(options.alias)
  if (options.capabilities !== undefined) container.withAddedCapabilities(...options.capabilities)
  if (options.entrypoint !== undefined) container.withEntrypoint(options.entrypoint)
  if (options.command !== undefined) container.withCommand(options.command)
  if (options.user !== undefined) container.withUser(options.user)
  if (options.tmpfs !== undefined) container.withTmpFs(options.tmpfs)
  if (options.sharedMemoryBytes !== undefined) {
    container.withSharedMemorySize(options.sharedMemoryBytes)
  }
  return container
}

/** Starts a container; it and all that belongs to it are removed after the test. */
export async function startContainer(options: ContainerOptions): Promise<Contained> {
  const log = new ContainerLog()
  const container = prepared(options).withLogConsumer((stream) => log.read(stream))
  const docker = await engine()
  const started = await container.start()
  const handle = docker.getContainer(started.getId())
  const ended = handle.wait().then(async ({ StatusCode }: { StatusCode: number }) => {
    await log.over
    return StatusCode
  })
  // Most tests never ask, and removing a container ends the call.
  ended.catch(() => undefined)
  const address = isShared(options.network) ? '' : started.getIpAddress(options.network)
  return {
    id: started.getId(),
    address,
    lines: log.lines,
    said: () => log.lines.map((line) => JSON.stringify(line)).join('\n'),
    line: (fits) => log.line(fits),
    ended,
    async probe(path, port = 8081) {
      try {
        const response = await fetch(`http://${address}:${port}${path}`)
        return { status: response.status, text: await response.text() }
      } catch {
        return { status: 0, text: '' }
      }
    },
    exec: (...args) => run(started, args),
    async stop(graceSeconds = 30) {
      const begin = performance.now()
      await handle.stop({ t: graceSeconds })
      return { code: await ended, ms: performance.now() - begin }
    },
  }
}

async function run(started: StartedTestContainer, args: string[]) {
  const { exitCode, output } = await started.exec(args)
  return { code: exitCode, text: output }
}

class ContainerLog {
  readonly lines: ContainerLine[] = []
  readonly over: Promise<void>
  readonly #isOver = Promise.withResolvers<void>()
  readonly #waiting = new Set<() => void>()
  #ended = false

  constructor() {
    this.over = this.#isOver.promise
  }

  read(stream: Readable): void {
    const reader = createInterface({ input: stream })
    reader.on('line', (text) => {
      this.lines.push(parsed(text))
      this.#notify()
    })
    reader.on('close', () => {
      this.#ended = true
      this.#isOver.resolve()
      this.#notify()
    })
  }

  line(fits: (line: ContainerLine) => boolean): Promise<ContainerLine> {
    return new Promise((resolve, reject) => {
      const look = () => {
        const found = this.lines.find(fits)
        if (found === undefined && !this.#ended) return
        this.#waiting.delete(look)
        if (found !== undefined) resolve(found)
        else reject(new Error(`it ended without the line: ${JSON.stringify(this.lines.slice(-5))}`))
      }
      this.#waiting.add(look)
      look()
    })
  }

  #notify(): void {
    for (const look of this.#waiting) look()
  }
}

function parsed(text: string): ContainerLine {
  try {
    return JSON.parse(text) as ContainerLine
  } catch {
    return { text }
  }
}
