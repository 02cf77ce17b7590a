// One run of a browser or multistep monitor: its script on its runtime, in the sandbox, and its
// observation. Loaded at the first such run: an agent for uptime checks alone must not have it in memory.
import { realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { jsonOf } from '../contract/exact-json.ts'
import type { Failure } from '../contract/failure.ts'
import { LIMITS } from '../contract/versions.ts'
import type { SandboxLimits } from '../sandbox/request.ts'
import { sandboxFailure } from '../sandbox/failure.ts'
import { CHROMIUM_ADVICE, findChromium, findProgram } from './chromium.ts'
import { isDeadline } from '../network/deadline.ts'
import type { Observation } from '../contract/observation.ts'
import { type NamedMonitor, type ScriptContext, scriptEnvironment } from './context.ts'
import { findPlaywrightCore } from './playwright/browsers.ts'
import { runPlaywright, type PlaywrightRun } from './playwright/run.ts'
import { blockedNotes } from '../sandbox/egress/egress.ts'
import { leadsInside, readUntrusted } from '../sandbox/untrusted-files.ts'
import type { ScriptHost } from './host.ts'
import { fitObserved, type ScriptObserved, ScriptWatch } from './observed.ts'
import { layOutScript, type Script, type ScriptProject } from './project.ts'
import { scriptRuntime, type ScriptRuntime } from './runtime.ts'
import { failsSoftly, scriptFailure, testFailures, unreadScript } from './verdict.ts'
import { failureOf, targetFailure } from '../network/target-failure.ts'

/** Fields of a definition whose script is a monitor in itself. */
export interface ScriptMonitor extends NamedMonitor, Script {
  runtimeId: string | null
}

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
      throw targetFailure('SCRIPT_UNSUPPORTED', 'this agent does not run scripts')
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
  const runtime = await scriptRuntime(host.tools, monitor.runtimeId)
  const browser = options.withBrowser ? await browserFor(host, runtime) : undefined
  const folder = await context.workFolder()
  const { modules, node } = runtime
  const hasVideo = browser?.ffmpeg !== undefined
  const project = await layOutScript(monitor, { folder, modules, hasVideo })
  const watch = new ScriptWatch()
  const run = await runPlaywright({
    host,
    context,
    folder,
    cwd: project.folder,
    command: node,
    args: project.args,
    environment: scriptEnvironment(monitor, context),
    preload: 'script-preload.cjs',
    readable: [runtime.folder, await realpath(modules), await realpath(node)],
    limits: BOUNDS,
    code: { program: node, isBun: false, modules },
    browser,
    onEvent(event) {
      if (event.event === 'output') watch.console.add(event.text, event.stream)
    },
    onPage: (event) => watch.addPage(event),
    onOutput(chunk, stream) {
      // A test's output comes with its events.
      if (!project.isTest) watch.console.add(chunk, stream)
    },
  })
  const about = { runtime: runtime.id, ...(browser && { browser: browser.chromium }) }
  const lacksVideo = browser !== undefined && !hasVideo
  return observationOf({ options, context, project, watch, run, about, lacksVideo })
}

async function browserFor(host: ScriptHost, runtime: ScriptRuntime) {
  const chromium = await findChromium(host.chromiumPath)
  const named = host.chromiumPath
  if (chromium === undefined) {
    const what = named === undefined ? 'no Chromium is installed' : `no browser at ${named}`
    throw targetFailure('BROWSER_MISSING', `${what}; ${CHROMIUM_ADVICE}`)
  }
  const core = await findPlaywrightCore(runtime.folder)
  if (core !== undefined) return { chromium, core, ffmpeg: await findProgram('ffmpeg') }
  const again = `install it again with: vedette runtime install ${runtime.id}`
  throw targetFailure('RUNTIME_MISSING', `the runtime ${runtime.id} has no Playwright; ${again}`)
}

interface Finished {
  options: ScriptOptions
  context: ScriptContext
  project: ScriptProject
  watch: ScriptWatch
  run: PlaywrightRun
  about: Pick<ScriptObserved, 'runtime' | 'browser'>
  /** There is a browser, and nothing to film it. */
  lacksVideo: boolean
}

async function observationOf(finished: Finished): Promise<Observation> {
  const { context, project, watch, run, options } = finished
  const { end, report } = run
  const degradedReasons = await degradedMark(project.folder)
  const isMarked = degradedReasons !== undefined
  const failures = failuresOf(finished)
  const isSoft = isMarked && project.isTest && failsSoftly(report)
  const hasFailed = failures.length > 0 && !isSoft
  const notes = [
    ...(hasFailed && finished.lacksVideo ? [NO_VIDEO] : []),
    ...blockedNotes(end.blocked),
    ...(options.notes ?? []),
  ]
  for (const { path } of report.tests.flatMap(filesOf)) if (path !== undefined) context.attach(path)
  const observed = watch.observed(
    {
      ...finished.about,
      ...(isMarked ? { degradedReasons } : {}),
      ...(notes.length === 0 ? {} : { notes }),
    },
    run,
  )
  return {
    observed: { ...fitObserved(observed, LIMITS.scriptShownBytesMax) },
    failures: isSoft ? [] : failures,
    degraded: isMarked && !hasFailed,
    responseTimeMs: end.usage.wallMs,
  }
}

const NO_VIDEO = 'no video: the agent’s system has no ffmpeg'

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

/** What `markCheckAsDegraded` of @checkly/playwright-helpers leaves. The script may have put anything there. */
async function degradedMark(folder: string): Promise<string[] | undefined> {
  const path = join(folder, 'degraded.json')
  if (!(await leadsInside(path, folder))) return undefined
  const mark = jsonOf((await readUntrusted(path, MARK_BYTES_MAX)) ?? '') ?? undefined
  if (mark === undefined) return undefined
  const { messages } = mark as { messages?: unknown }
  return Array.isArray(messages) ? messages.slice(0, REASONS_MAX).map(String) : []
}
