// One run of a browser or multistep monitor: its script on its runtime, in the sandbox, and its
// observation. Loaded at the first such run: an agent for uptime checks alone must not have it in memory.
import { constants } from 'node:fs'
import { open, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import type { Failure } from '../contract/failure.ts'
import { LIMITS } from '../contract/versions.ts'
import type { SandboxLimits } from '../sandbox/request.ts'
import { sandboxFailure } from '../sandbox/failure.ts'
import { CHROMIUM_ADVICE, findChromium, findProgram } from './chromium.ts'
import { compiledCode } from './playwright/compiled-code.ts'
import { isDeadline } from '../network/deadline.ts'
import type { Observation } from '../contract/observation.ts'
import { type NamedMonitor, type ScriptContext, scriptEnvironment } from './context.ts'
import { parsePageEvent } from './playwright/page-events.ts'
import { findPlaywrightCore } from './playwright/browsers.ts'
import { reportProgress } from './playwright/report.ts'
import { runPlaywright, type PlaywrightRun } from './playwright/run.ts'
import { blockedNotes } from '../sandbox/egress/egress.ts'
import type { ScriptHost } from './host.ts'
import { fitObserved, type ScriptObserved, ScriptWatch } from './observed.ts'
import { layOutScript, type Script, type ScriptProject } from './project.ts'
import { headerEnvironment, receiveHeader } from './playwright/observed-headers.ts'
import { scriptRuntime, type ScriptRuntime } from './runtime.ts'
import { failsSoftly, scriptFailure, testFailures, unreadScript } from './verdict.ts'
import { failureOf, targetFailure } from '../network/target-failure.ts'

/** Fields of a definition whose script is a monitor in itself. */
export interface ScriptMonitor extends NamedMonitor, Script {
  runtimeId: string | null
}

/** Further options of a run. */
export interface ScriptOptions {
  /** Chromium is there for the script. */
  withBrowser: boolean
  /** Reported with the result. */
  notes?: readonly string[]
}

const BOUNDS: SandboxLimits = {
  wallMs: LIMITS.scriptMsMax,
  // Two processors all the time.
  cpuMs: 2 * LIMITS.scriptMsMax,
  memoryBytes: LIMITS.scriptMemoryBytesMax,
  processes: LIMITS.scriptProcessesMax,
  outputBytes: LIMITS.scriptOutputBytesMax,
  diskBytes: LIMITS.scriptDiskBytesMax,
  fileBytes: LIMITS.scriptDiskBytesMax,
  openFiles: 8192,
}

/** Runs the script of a monitor. Rejects only for a fault of the agent. */
export async function runScript(
  monitor: ScriptMonitor,
  context: ScriptContext,
  options: ScriptOptions,
): Promise<Observation> {
  try {
    const { scripts } = context
    if (scripts === undefined)
      throw targetFailure('SCRIPT_UNSUPPORTED', 'this agent runs no scripts')
    return await runOn(scripts, monitor, context, options)
  } catch (error) {
    return { observed: {}, failures: [failureOf(error, { phase: 'send' })] }
  }
}

async function runOn(
  host: ScriptHost,
  monitor: ScriptMonitor,
  context: ScriptContext,
  options: ScriptOptions,
): Promise<Observation> {
  const runtime = await scriptRuntime(host, monitor.runtimeId)
  const browser = options.withBrowser ? await browserFor(host, runtime) : undefined
  const hasVideo = browser !== undefined && (await findProgram('ffmpeg')) !== undefined
  const folder = await context.workFolder()
  const { modules } = runtime
  const project = await layOutScript(monitor, { folder, modules, hasVideo })
  const watch = new ScriptWatch()
  const sandbox = await host.sandbox()
  const readable = [runtime.folder, await realpath(modules), await realpath(runtime.node)]
  const engine = { program: runtime.node, isBun: false, modules }
  const { cacheFolder } = host
  const { signal } = context
  const order = { sandbox, cacheFolder, folder, readable, limits: BOUNDS, signal }
  const compiled = await compiledCode({ ...engine, ...order })
  context.progress?.({ phase: 'test' })
  const run = await runPlaywright(
    {
      sandbox,
      dial: context.dial,
      folder,
      cwd: project.folder,
      command: runtime.node,
      args: project.args,
      environment: {
        ...compiled.environment,
        ...scriptEnvironment(monitor, context),
        ...project.environment,
        ...headerEnvironment(context.headers),
      },
      readable: [...readable, ...compiled.readable],
      limits: BOUNDS,
      browser,
      onEvent(event, report) {
        if (event.event === 'output') watch.console.add(event.text, event.stream)
        reportProgress(event, report, context)
      },
      onOther(line) {
        const event = parsePageEvent(line)
        if (event === undefined) receiveHeader(line, context.headers)
        else watch.addPage(event)
      },
      onOutput(chunk, stream) {
        // A test's output comes with its events.
        if (!project.isTest) watch.console.add(chunk, stream)
      },
    },
    signal,
  )
  return observationOf({ options, context, runtime, project, watch, run, browser, hasVideo })
}

async function browserFor(host: ScriptHost, runtime: ScriptRuntime) {
  const chromium = await findChromium(host.chromiumPath)
  const named = host.chromiumPath
  if (chromium === undefined) {
    const what =
      named === undefined ? 'no Chromium is installed' : `there is no browser at ${named}`
    throw targetFailure('BROWSER_MISSING', `${what}; ${CHROMIUM_ADVICE}`)
  }
  const core = await findPlaywrightCore(runtime.folder)
  if (core !== undefined) return { chromium, core }
  const again = `install it again with: vedette runtime install ${runtime.id}`
  throw targetFailure('RUNTIME_MISSING', `the runtime ${runtime.id} has no Playwright; ${again}`)
}

interface Finished {
  options: ScriptOptions
  context: ScriptContext
  runtime: ScriptRuntime
  project: ScriptProject
  watch: ScriptWatch
  run: PlaywrightRun
  browser: { chromium: string } | undefined
  hasVideo: boolean
}

async function observationOf(finished: Finished): Promise<Observation> {
  const { context, runtime, project, watch, run, browser } = finished
  const { end, report } = run
  const marked = await degradedMark(project.folder)
  const failures = failuresOf(finished)
  const isSoft = marked !== undefined && project.isTest && failsSoftly(report)
  const about: Pick<ScriptObserved, 'runtime'> & Partial<ScriptObserved> = { runtime: runtime.id }
  if (browser !== undefined) about.browser = browser.chromium
  if (marked !== undefined) about.degradedReasons = marked
  const failed = failures.length > 0 && !isSoft
  if (failed && browser !== undefined && !finished.hasVideo) {
    about.notes = ['there is no video: the agent’s system has no ffmpeg']
  }
  const further = [...blockedNotes(end.blocked), ...(finished.options.notes ?? [])]
  if (further.length > 0) about.notes = [...(about.notes ?? []), ...further]
  for (const { path } of report.tests.flatMap(filesOf)) if (path !== undefined) context.attach(path)
  const observed = fitObserved(watch.observed(about, run), LIMITS.scriptShownBytesMax)
  return {
    observed: observed as unknown as Record<string, unknown>,
    failures: isSoft ? [] : failures,
    degraded: marked !== undefined && (failures.length === 0 || isSoft),
    responseTimeMs: end.usage.wallMs,
  }
}

function filesOf({ attempts }: PlaywrightRun['report']['tests'][number]) {
  return attempts.flatMap(({ attachments }) => attachments)
}

function failuresOf({ context, project, watch, run }: Finished): Failure[] {
  const { end, report } = run
  // The runner of jobs says that it was cancelled; what was recorded until then stays.
  if (end.outcome === 'cancelled' && !isDeadline(context.signal)) return []
  const cut = sandboxFailure(end, 'the script')
  if (cut !== undefined) return [cut]
  if (project.isTest) return testFailures(report, end)
  const { scriptError } = watch
  if (scriptError !== undefined) {
    const { loaded } = scriptError
    return [loaded ? scriptFailure(scriptError) : unreadScript(scriptError)]
  }
  if (end.exitCode === 0) return []
  return [scriptFailure({ message: `the script ended with exit code ${end.exitCode}` })]
}

const MARK_BYTES_MAX = 65_536
const REASONS_MAX = 50

/**
 * What `markCheckAsDegraded` of @checkly/playwright-helpers leaves: a file in the folder in which the script
 * began. Undefined where there is none. The script may have put anything there.
 */
async function degradedMark(folder: string): Promise<string[] | undefined> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const file = await open(join(folder, 'degraded.json'), flags).catch(() => undefined)
  if (file === undefined) return undefined
  try {
    if (!(await file.stat()).isFile()) return undefined
    const buffer = Buffer.alloc(MARK_BYTES_MAX)
    const { bytesRead } = await file.read(buffer, 0, MARK_BYTES_MAX, 0)
    const { messages } = JSON.parse(buffer.toString('utf8', 0, bytesRead)) as { messages?: unknown }
    return Array.isArray(messages) ? messages.slice(0, REASONS_MAX).map(String) : []
  } catch {
    return undefined
  } finally {
    await file.close()
  }
}
