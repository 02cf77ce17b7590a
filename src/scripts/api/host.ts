// Process for the scripts of one run of an API monitor: started for the first script and ended after the last, so
// that the second finds what the first left.
import { copyFile, mkdir, realpath, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { PassThrough } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { ApiMonitor } from '../../contract/http-monitor.ts'
import { failure, type Failure } from '../../contract/failure.ts'
import { LIMITS } from '../../contract/versions.ts'
import {
  parseScriptMessage,
  type ScriptError,
  type ScriptOrder,
  type ScriptMessage,
} from './messages.ts'
import type { SandboxLimits } from '../../sandbox/request.ts'
import type { Sandbox, SandboxEnd } from '../../sandbox/sandbox.ts'
import { sandboxFailure } from '../../sandbox/failure.ts'
import { DeadlineReached, isDeadline } from '../../network/deadline.ts'
import { ScriptConsole } from '../console.ts'
import { type ScriptContext, scriptEnvironment } from '../context.ts'
import { pathInside } from '../project.ts'
import type { ScriptRuntime } from '../runtime.ts'
import { copyHeaderWatch, headerEnvironment } from '../playwright/observed-headers.ts'
import { TargetFailure } from '../../network/target-failure.ts'
import {
  openEgress,
  refusedConnections,
  type Egress,
  type RefusedConnection,
} from '../../sandbox/egress/egress.ts'

/** The moments at which an API monitor has scripts. */
export type ScriptStep = 'set-up' | 'tear-down'

const PROGRAM = fileURLToPath(new URL('./api-script.cjs', import.meta.url))
/** A process whose scripts are done has nothing to put in order. */
const ASK = { signal: 'SIGTERM', to: 'leader', graceMs: 250 } as const
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

/** What a host works with. */
export interface HostSettings {
  monitor: ApiMonitor
  context: ScriptContext
  sandbox: Sandbox
  runtime: ScriptRuntime
}

/** A script of a monitor, and where it is in the project. */
export function scriptFile(monitor: ApiMonitor, step: ScriptStep): string {
  const isSetUp = step === 'set-up'
  const path = isSetUp ? monitor.setupScriptPath : monitor.tearDownScriptPath
  // With a name of TypeScript's, so that a script may be either.
  return join(step, pathInside((path ?? '').trim() === '' ? `${step}.ts` : (path as string)))
}

/** Starts it. Rejects with a TargetFailure where it cannot be started. */
export async function startScriptHost(settings: HostSettings): Promise<ApiScriptHost> {
  const { monitor, context, sandbox, runtime } = settings
  const folder = await context.workFolder()
  const program = join(folder, '.vedette', 'api-script.cjs')
  await mkdir(dirname(program), { recursive: true })
  await copyFile(PROGRAM, program)
  await copyHeaderWatch(dirname(program))
  await symlink(runtime.modules, join(folder, 'node_modules'))
  await layOut(folder, monitor, 'set-up')
  await layOut(folder, monitor, 'tear-down')
  const egress = await openEgress(sandbox, context.dial, ({ environment }) => ({
    ...environment,
    VEDETTE_PROXIES: JSON.stringify(environment),
  }))
  const host = new ApiScriptHost(settings, egress)
  try {
    await host.begin(folder, program)
    return host
  } catch (error) {
    await host.close()
    throw error
  }
}

async function layOut(folder: string, monitor: ApiMonitor, step: ScriptStep): Promise<void> {
  const isSetUp = step === 'set-up'
  const script = isSetUp ? monitor.localSetupScript : monitor.localTearDownScript
  if ((script ?? '').trim() === '') return
  const given = isSetUp ? monitor.setupScriptDependencies : monitor.tearDownScriptDependencies
  const files = (given ?? []).map(({ path, content }) => ({
    path: join(step, pathInside(path)),
    content,
  }))
  files.push({ path: scriptFile(monitor, step), content: script as string })
  for (const { path, content } of files) {
    const at = join(folder, 'project', path)
    await mkdir(dirname(at), { recursive: true })
    await writeFile(at, content)
  }
}

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
  readonly #settings: HostSettings
  readonly #input = new PassThrough()
  readonly #stop = new AbortController()
  readonly #onAbort: () => void
  #ended: Promise<SandboxEnd> | undefined
  #waiting: Waiting | undefined
  #crash: ScriptError | undefined

  constructor(settings: HostSettings, egress: Egress) {
    this.#settings = settings
    this.#egress = egress
    const { signal } = settings.context
    this.#onAbort = () => this.#stop.abort(signal.reason)
    signal.addEventListener('abort', this.#onAbort, { once: true })
    if (signal.aborted) this.#onAbort()
  }

  /** Resolves when it is ready for scripts. */
  async begin(folder: string, program: string): Promise<void> {
    const { sandbox, context, monitor, runtime } = this.#settings
    const bothMs = 2 * LIMITS.apiScriptMsMax
    const run = sandbox.run(
      {
        command: runtime.node,
        args: [program],
        folder,
        input: this.#input,
        environment: {
          ...scriptEnvironment(monitor, context),
          REQUEST_URL: monitor.request.url,
          ...headerEnvironment(context.headers),
        },
        ...this.#egress.order,
        readable: [runtime.folder, await realpath(runtime.modules), await realpath(runtime.node)],
        limits: {
          ...LIMITS_OF_SCRIPTS,
          wallMs: LIMITS.apiScriptStartMsMax + bothMs + monitor.maxResponseTime,
          cpuMs: 2 * bothMs,
        },
        ask: ASK,
        onOutput: (chunk, stream) => this.console.add(chunk, stream),
        onMessage: (message) => this.#receive(message),
      },
      this.#stop.signal,
    )
    this.#ended = run.ended.then((end) => (this.end = end))
    const startMs = LIMITS.apiScriptStartMsMax
    await this.#report('ready', startMs, 'the process of the scripts')
  }

  /** Runs a script and resolves with its report. Rejects with a TargetFailure where none comes. */
  async run(order: ScriptOrder): Promise<ScriptMessage> {
    const ms = LIMITS.apiScriptMsMax
    this.#input.write(`${JSON.stringify(order)}\n`)
    return this.#report(order.step, ms, `the ${order.step} script`)
  }

  /** Ends it; resolves when nothing of it is left. */
  async close(): Promise<void> {
    this.#settings.context.signal.removeEventListener('abort', this.#onAbort)
    this.#input.end()
    const timer = setTimeout(() => this.#stop.abort(new Error('the scripts are done')), END_MS_MAX)
    await this.#ended
    clearTimeout(timer)
    this.console.end()
    await this.#egress.close()
  }

  /** Connections that the scripts could not make. */
  refused(): RefusedConnection[] {
    return refusedConnections(this.#egress.refusals, this.end?.blocked ?? [])
  }

  async #report(step: Waiting['step'], ms: number, what: string): Promise<ScriptMessage> {
    const said = new Promise<ScriptMessage>((resolve) => (this.#waiting = { step, resolve }))
    const timer = setTimeout(() => this.#stop.abort(new DeadlineReached(ms)), ms)
    try {
      const first = await Promise.race([said, this.#ended as Promise<SandboxEnd>])
      if ('step' in first) return first
      throw this.#endReason(first, step, what)
    } finally {
      clearTimeout(timer)
      this.#waiting = undefined
    }
  }

  /** Why the process ended without a report. */
  #endReason(end: SandboxEnd, step: Waiting['step'], what: string): unknown {
    const { signal } = this.#settings.context
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
    if (report.step === 'header') this.#settings.context.headers?.saw(report.name, report.value)
    else if (report.step === 'crash') this.#crash = 'error' in report ? report.error : undefined
    else if (report.step === this.#waiting?.step) this.#waiting.resolve(report)
  }
}

/** The failure of a script that ended with an error. */
export function scriptErrorFailure(error: ScriptError, what: string): Failure {
  const { message, loaded, file, line, column } = error
  const place = file === undefined ? undefined : { file, line, column }
  return failure(loaded ? 'SCRIPT_FAILED' : 'SCRIPT_INVALID', `${what}: ${message}`, place)
}
