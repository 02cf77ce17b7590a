// Life cycle of the platform: listen, open the database, answer, drain. It answers 503 before the database is
// open.
import { setTimeout as sleep } from 'node:timers/promises'
import { VERSION } from '../contract/versions.ts'
import type { FaultReports } from '../process/faults/reports.ts'
import type { Log } from '../process/log.ts'
import { listenWith, serve, type Served } from '../process/serve.ts'
import type { Database } from '../database/database.ts'
import { type Assembly, assemble } from './assembly.ts'
import type { PlatformConfig } from './config.ts'
import { answerError, unavailable } from './http/errors.ts'
import { type Credentials, ensureFirstAccount, storeCredentials } from './accounts/first-account.ts'
import { createHttpServer } from './http/http-server.ts'
import { createPlatformMetrics, isLongPoll, type PlatformMetrics } from './metrics.ts'
import { openPlatformDatabase, type PlatformDatabase, databaseProblem } from './open-database.ts'
import { createMetricsApp, createProbes, isProbe, type Phase } from './http/probes.ts'
import { ensureCipher } from './secrets/secrets-key.ts'

export interface PlatformOptions {
  config: PlatformConfig
  log: Log
  /** Fault reports, counted in the metrics. */
  faults?: Pick<FaultReports, 'registerMetrics'> | undefined
  /** Shows the credentials created at the first start; `path` is the file that contains them. */
  onCredentials: (credentials: Credentials, path: string | undefined) => void
}

/** The platform of a process; it is not started when it is made. */
export class Platform {
  readonly #options: PlatformOptions
  readonly #stopping = new AbortController()
  readonly #metrics: PlatformMetrics
  readonly #ended = Promise.withResolvers<void>()
  #phase: Phase = 'starting'
  #waitingFor = 'the platform is starting'
  #served: Served[] = []
  #database: PlatformDatabase | undefined
  #assembly: Assembly | undefined
  #working: Promise<void> = Promise.resolve()
  #starting: Promise<void> | undefined
  #stop: Promise<void> | undefined

  constructor(options: PlatformOptions) {
    this.#options = options
    this.#metrics = createPlatformMetrics({
      connections: () => this.#database?.database.connections() ?? { open: 0, idle: 0, waiting: 0 },
      postgresRestarts: () => this.#database?.embedded?.restarts ?? 0,
    })
    options.faults?.registerMetrics(this.#metrics.registry)
  }

  /** Resolves when everything has ended. */
  get stopped(): Promise<void> {
    return this.#ended.promise
  }

  /** The address it listens on; undefined before. */
  url(): string | undefined {
    return this.#served[0]?.url
  }

  /** Undefined before it is open. */
  database(): Database | undefined {
    return this.#assembly === undefined ? undefined : this.#database?.database
  }

  /**
   * Resolves when requests are answered, or when it is stopped meanwhile. Rejects with ListenError,
   * EmbeddedPostgresError, MigrationError, CredentialsError or a failure of the database, after releasing
   * all resources.
   */
  start(): Promise<void> {
    this.#starting ??= this.#start().catch(async (error: unknown) => {
      if (this.#stopping.signal.aborted) return
      await this.#release(0)
      throw error
    })
    return this.#starting
  }

  async #start(): Promise<void> {
    await this.#listen()
    const { config, log } = this.#options
    const { signal } = this.#stopping
    this.#waitingFor = 'the database is starting'
    this.#database = await openPlatformDatabase(config, {
      applicationName: 'vedette platform',
      log,
      signal,
      onWaiting: (reason) => {
        this.#waitingFor = reason
      },
      onLockLost: () => {
        log.error('another process has locked the data folder; stopping')
        void this.stop()
      },
    })
    signal.throwIfAborted()
    await this.#welcome(this.#database)
    this.#assembly = await assemble({
      config,
      log,
      open: this.#database,
      registry: this.#metrics.registry,
      cipher: await ensureCipher(this.#database.database, config),
    })
    this.#working = this.#assembly.work(signal)
    if (!signal.aborted) this.#phase = 'running'
  }

  async #listen(): Promise<void> {
    const { port, hostname, metricsPort } = this.#options.config
    const where = { hostname, hostVariable: 'HOST' }
    const probes = createProbes({
      phase: () => this.#phase,
      waitingFor: () => this.#waitingFor,
      databaseProblem: async () =>
        this.#database === undefined ? this.#waitingFor : databaseProblem(this.#database.database),
      facts: () => ({
        version: VERSION,
        database: this.#options.config.databaseUrl === undefined ? 'embedded' : 'given',
        uptimeSeconds: Math.round(process.uptime()),
      }),
    })
    const server = createHttpServer((request, env) =>
      isProbe(request.url) ? probes.fetch(request) : this.#answer(request, env),
    )
    this.#served.push(await listenWith(server, { port, ...where, variable: 'PORT' }))
    this.#options.log.info({ url: this.url() }, 'listening')
    if (metricsPort === undefined) return
    const app = createMetricsApp(() => this.#metrics.text())
    const served = await serve({ app, port: metricsPort, ...where, variable: 'METRICS_PORT' })
    this.#served.push(served)
    this.#options.log.info({ url: `${served.url}/metrics` }, 'metrics listening')
  }

  #answer(request: Request, env: unknown): Response | Promise<Response> {
    const begin = performance.now()
    const answer = this.#assembly?.answer(request, env) ?? answerError(unavailable(), {})
    const count = (response: Response) => {
      const seconds = (performance.now() - begin) / 1000
      this.#metrics.answered(response.status, isLongPoll(request.url) ? undefined : seconds)
      return response
    }
    return answer instanceof Promise ? answer.then(count) : count(answer)
  }

  async #welcome({ database }: PlatformDatabase): Promise<void> {
    const { config, log, onCredentials } = this.#options
    let path: string | undefined
    const first = await ensureFirstAccount(database, {
      accountId: config.accountId,
      adminApiKey: config.adminApiKey,
      keep: (credentials) => {
        try {
          path = storeCredentials(config.dataDir, credentials)
        } catch (error) {
          log.warn({ err: error }, 'the credentials could not be written to DATA_DIR')
        }
      },
    })
    if (first.warning !== undefined) log.warn(first.warning)
    if (first.made !== undefined) onCredentials(first.made, path)
  }

  /** Drains; readiness fails in the same tick. Resolves like `stopped`. */
  stop(): Promise<void> {
    this.#phase = 'draining'
    this.#assembly?.drain()
    this.#stop ??= this.#drain()
    return this.#stop
  }

  async #drain(): Promise<void> {
    const { config, log } = this.#options
    if (this.#assembly !== undefined && config.drainDelayMs > 0) {
      await sleep(config.drainDelayMs)
    }
    this.#stopping.abort(new Error('the platform is stopping'))
    await this.#starting?.catch(() => undefined)
    await this.#release(config.drainMs)
    log.info('platform stopped')
    this.#ended.resolve()
  }

  /** Requests end before the connections that they use, and those before the database itself. */
  async #release(deadlineMs: number): Promise<void> {
    this.#stopping.abort(new Error('the platform is stopping'))
    await Promise.all(this.#served.map((one) => one.close(deadlineMs)))
    await this.#working
    await this.#database?.close()
  }
}
