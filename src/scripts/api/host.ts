// Process for the scripts of one run of an API monitor: started for the first script and ended after the last, so
// that the second finds what the first left.
import { realpath, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import type { ApiMonitor } from '../../contract/http-monitor.ts'
import { failure, type Failure } from '../../contract/failure.ts'
import { LIMITS } from '../../contract/versions.ts'
import {
  parseScriptMessage,
  type ScriptError,
  type ScriptOrder,
  type ScriptMessage,
} from './messages.ts'
import type {
  SandboxLimits,
  Sandbox,
  SandboxEnd,
  SandboxRequest,
  SandboxUsage,
} from '../../sandbox/request.ts'
import { sandboxFailure } from '../../sandbox/failure.ts'
import { DeadlineReached, isDeadline } from '../../network/deadline.ts'
import { type ConsoleLine, ScriptConsole } from '../console.ts'
import { type ScriptContext, scriptEnvironment } from '../context.ts'
import { pathInside, writeFiles } from '../project.ts'
import type { ScriptRuntime } from '../runtime.ts'
import { copyOwnPrograms, ownProgram } from '../own-programs.ts'
import { headerEnvironment } from '../playwright/observed-headers.ts'
import { TargetFailure } from '../../network/target-failure.ts'
import {
  openEgress,
  refusedConnections,
  type Egress,
  type RefusedConnection,
} from '../../sandbox/egress/egress.ts'

/** The moments at which an API monitor has scripts. */
export type ScriptStep = 'set-up' | 'tear-down'

/** When it is stopped, it reports what its scripts have made secret. */
const ASK = { signal: 'SIGTERM', to: 'leader', graceMs: 2_000 } as const
const END_MS_MAX = 1_000
const CONSOLE_CHARS_MAX = 65_536

const LIMITS_OF_SCRIPTS: Omit<SandboxLimits, 'wallMs' | 'cpuMs'> = {
  memoryBytes: LIMITS.apiScriptMemoryBytesMax,
  processes: LIMITS.scriptProcessesMax,
  outputBytes: LIMITS.scriptOutputBytesMax,
  diskBytes: LIMITS.scriptDiskBytesMax,
  fileBytes: LIMITS.scriptDiskBytesMax,
  openFiles: 1024,
}

/** A script that ran. */
interface ApiScriptObserved {
  durationMs: number
  error?: string
}

/** What the scripts of one attempt did. */
export interface ApiScriptsObserved {
  runtime: string
  setUp?: ApiScriptObserved
  tearDown?: ApiScriptObserved
  console: ConsoleLine[]
  consoleLeftOut?: number
  notes?: string[]
  /** Connections that the network policy forbids, and those that failed in the run's proxy, where it has one. */
  refused?: RefusedConnection[]
  usage?: Pick<SandboxUsage, 'cpuMs' | 'peakMemoryBytes' | 'processesMax'>
}

export interface HostSettings {
  monitor: ApiMonitor
  context: ScriptContext
  sandbox: Sandbox
  runtime: ScriptRuntime
}

/** A script of a monitor, and where it is in the project. */
export function scriptFile(monitor: ApiMonitor, step: ScriptStep): string {
  const path = (step === 'set-up' ? monitor.setupScriptPath : monitor.tearDownScriptPath) ?? ''
  // With a name of TypeScript's, so that a script may be either.
  return join(step, pathInside(path.trim() === '' ? `${step}.ts` : path))
}

/** Starts it. Rejects with a TargetFailure where it cannot be started. */
export async function startScriptHost(settings: HostSettings): Promise<ApiScriptHost> {
  const { monitor, context, sandbox, runtime } = settings
  const folder = await context.workFolder()
  await copyOwnPrograms(folder)
  await symlink(runtime.modules, join(folder, 'node_modules'))
  for (const step of ['set-up', 'tear-down'] as const) {
    await writeFiles(join(folder, 'project'), filesOf(monitor, step))
  }
  const { node, modules } = runtime
  const readable = [runtime.folder, await realpath(modules), await realpath(node)]
  const egress = await openEgress(sandbox, context.dial, ({ environment }) => ({
    ...environment,
    VEDETTE_PROXIES: JSON.stringify(environment),
  }))
  const args = [ownProgram(folder, 'api-script.cjs')]
  const host = new ApiScriptHost(settings, egress, { folder, args, readable })
  try {
    await host.ready()
    return host
  } catch (error) {
    await host.close()
    throw error
  }
}

/** The script and what it imports, in a folder of their own. */
function filesOf(monitor: ApiMonitor, step: ScriptStep): { path: string; content: string }[] {
  const [content, imported] =
    step === 'set-up'
      ? [monitor.localSetupScript, monitor.setupScriptDependencies]
      : [monitor.localTearDownScript, monitor.tearDownScriptDependencies]
  if (content == null || content.trim() === '') return []
  const files = (imported ?? []).map((one) => ({ ...one, path: join(step, pathInside(one.path)) }))
  return [...files, { path: scriptFile(monitor, step), content }]
}

type ScriptProgram = Pick<SandboxRequest, 'folder' | 'args' | 'readable'>

interface Waiting {
  step: ScriptMessage['step']
  resolve: (report: ScriptMessage) => void
}

/** A process that runs scripts. */
export class ApiScriptHost {
  readonly console = new ScriptConsole(CONSOLE_CHARS_MAX)
  /** How it ended; undefined while it runs. */
  end: SandboxEnd | undefined
  readonly #egress: Egress
  readonly #context: ScriptContext
  readonly #input = new PassThrough()
  readonly #stop = new AbortController()
  readonly #ended: Promise<SandboxEnd>
  #waiting: Waiting | undefined
  #crash: ScriptError | undefined
  /** Whether it has reported, as it does at its end, all that its scripts made secret. */
  #hasReported = false

  constructor(settings: HostSettings, egress: Egress, program: ScriptProgram) {
    this.#context = settings.context
    this.#egress = egress
    this.#ended = this.#run(settings, program)
  }

  /** Resolves when it is ready for scripts. */
  async ready(): Promise<void> {
    await this.#report('ready', LIMITS.apiScriptStartMsMax, 'the process of the scripts')
  }

  /** Runs a script and resolves with its report. Rejects with a TargetFailure where none comes. */
  async run(order: ScriptOrder): Promise<ScriptMessage> {
    this.#input.write(`${JSON.stringify(order)}\n`)
    return this.#report(order.step, LIMITS.apiScriptMsMax, `the ${order.step} script`)
  }

  /** Ends it; resolves when nothing of it is left. */
  async close(): Promise<void> {
    this.#input.end()
    const timer = setTimeout(() => this.#stop.abort(new Error('the scripts are done')), END_MS_MAX)
    await this.#ended
    clearTimeout(timer)
    this.console.end()
    if (!this.#hasReported) this.console.hide()
    await this.#egress.close()
  }

  refused(): RefusedConnection[] {
    return refusedConnections(this.#egress.refusals, this.end?.blocked ?? [])
  }

  async #run(settings: HostSettings, program: ScriptProgram): Promise<SandboxEnd> {
    const { sandbox, context, monitor, runtime } = settings
    const bothMs = 2 * LIMITS.apiScriptMsMax
    this.end = await sandbox.run(
      {
        ...program,
        command: runtime.node,
        input: this.#input,
        environment: {
          ...scriptEnvironment(monitor, context),
          REQUEST_URL: monitor.request.url,
          ...headerEnvironment(context.headers),
        },
        ...this.#egress.order,
        limits: {
          ...LIMITS_OF_SCRIPTS,
          wallMs: LIMITS.apiScriptStartMsMax + bothMs + monitor.maxResponseTime,
          cpuMs: 2 * bothMs,
        },
        ask: ASK,
        onOutput: (chunk, stream) => this.console.add(chunk, stream),
        onMessage: (message) => this.#receive(message),
      },
      AbortSignal.any([context.signal, this.#stop.signal]),
    )
    return this.end
  }

  async #report(step: Waiting['step'], ms: number, what: string): Promise<ScriptMessage> {
    const said = new Promise<ScriptMessage>((resolve) => (this.#waiting = { step, resolve }))
    const timer = setTimeout(() => this.#stop.abort(new DeadlineReached(ms)), ms)
    try {
      const first = await Promise.race([said, this.#ended])
      if ('step' in first) return first
      throw this.#endReason(first, step, what)
    } finally {
      clearTimeout(timer)
      this.#waiting = undefined
    }
  }

  /** Why the process ended without a report. */
  #endReason(end: SandboxEnd, step: Waiting['step'], what: string): unknown {
    const { signal } = this.#context
    if (signal.aborted && !isDeadline(signal)) return signal.reason
    const cut = sandboxFailure(end, what)
    if (cut !== undefined) {
      // A failed start is a fault of this machine.
      const isLate = step === 'ready' && cut.code === 'TIMEOUT_RUN'
      return new TargetFailure(isLate ? { ...cut, code: 'RESOURCES_EXHAUSTED' } : cut)
    }
    if (this.#crash !== undefined) return new TargetFailure(scriptErrorFailure(this.#crash, what))
    const message = `${what} ended its process, with exit code ${end.exitCode}, before it was done`
    return new TargetFailure(failure('SCRIPT_FAILED', message))
  }

  #receive(message: unknown): void {
    const report = parseScriptMessage(message)
    if (report === undefined) return
    if (report.step === 'header') this.#context.headers?.saw(report.name, report.value)
    else if (report.step === 'exit') this.#hasReported = true
    else if (report.step === 'crash') this.#crash = 'error' in report ? report.error : undefined
    else if (report.step === this.#waiting?.step) this.#waiting.resolve(report)
  }
}

export function scriptErrorFailure(error: ScriptError, what: string): Failure {
  const { message, loaded, file, line, column } = error
  const place = file === undefined ? undefined : { file, line, column }
  return failure(loaded ? 'SCRIPT_FAILED' : 'SCRIPT_INVALID', `${what}: ${message}`, place)
}
