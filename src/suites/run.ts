// One run of a check suite: project, engine, packages, tests, results. Whatever happens, what was recorded
// until then is reported.
import { dirname, join, normalize } from 'node:path'
import { excerpt, failure, type Failure } from '../contract/failure.ts'
import { LIMITS } from '../contract/versions.ts'
import { LineSplitter } from '../sandbox/lines.ts'
import type { OutputStream, SandboxLimits } from '../sandbox/request.ts'
import { lateMessage } from '../sandbox/failure.ts'
import { findChromium, findProgram } from '../scripts/chromium.ts'
import type { Observation } from '../contract/observation.ts'
import { type NamedMonitor, type ScriptContext, scriptEnvironment } from '../scripts/context.ts'
import { ownProgram } from '../scripts/own-programs.ts'
import { findPlaywrightCore } from '../scripts/playwright/browsers.ts'
import type { PlaywrightEvent } from '../scripts/playwright/events.ts'
import type { PlaywrightReport, PlaywrightReportBuilder } from '../scripts/playwright/report.ts'
import { type PlaywrightRun, runPlaywright } from '../scripts/playwright/run.ts'
import { blockedNotes } from '../sandbox/egress/egress.ts'
import { removeTree } from '../sandbox/remove-tree.ts'
import type { ScriptHost } from '../scripts/host.ts'
import { enginePrograms, missingPackage, suiteCommand } from './command.ts'
import { wrapConfigs } from './config.ts'
import { type EngineOptions, suiteEngine } from './engine.ts'
import { attachSuiteFiles } from './files.ts'
import { type InstalledPackages, installPackages } from './packages/install.ts'
import { exists, foldersUpward } from './packages/package-manager.ts'
import { type PlacedProject, placeProject } from './source.ts'
import { observedTests, suiteVerdict } from './verdict.ts'
import { missingTool } from '../scripts/runtime.ts'
import { type InstalledTool, isBun } from '../scripts/toolchains.ts'
import { leadsInside } from '../sandbox/untrusted-files.ts'
import { targetFailure, TargetFailure } from '../network/target-failure.ts'

/** Fields of a suite's definition that a run needs. */
export interface Suite extends NamedMonitor, EngineOptions {
  codeBundlePath: string
  testCommand: string
  installCommand?: string | null | undefined
  /** Inside the bundle. */
  workingDir?: string | null | undefined
}

/** Callbacks that follow a run, in addition to `ScriptContext.progress`. */
export interface SuiteWatcher {
  onEvent?(event: PlaywrightEvent, report: PlaywrightReportBuilder): void
  onOutput?(chunk: Buffer): void
}

/** Runs a suite. Rejects only for faults of the agent, or with the signal's reason before any test ran. */
export async function runSuite(
  monitor: Suite,
  context: ScriptContext,
  host: ScriptHost,
  watcher: SuiteWatcher = {},
): Promise<Observation> {
  const run = new SuiteRun(monitor, context, host, watcher)
  try {
    await run.runTests(await run.prepare())
  } catch (error) {
    if (error === context.signal.reason) {
      const late = lateMessage('the set-up before the tests', LIMITS.suiteMsMax)
      run.failures.push(failure('TIMEOUT_RUN', late))
    } else if (error instanceof TargetFailure) run.failures.push(error.failure)
    else throw error
  }
  return run.observation()
}

/** What a run has in addition to its context before its tests start. */
interface Stage {
  folder: string
  /** The working folder, in the project. */
  cwd: string
  project: PlacedProject
  engine: InstalledTool
  programs: string[]
  packages: InstalledPackages
  environment: Record<string, string>
}

const LIMITS_OF_SUITES: SandboxLimits = {
  wallMs: LIMITS.suiteMsMax,
  cpuMs: LIMITS.suiteCpuMsMax,
  memoryBytes: LIMITS.suiteMemoryBytesMax,
  processes: LIMITS.suiteProcessesMax,
  outputBytes: LIMITS.suiteOutputBytesMax,
  diskBytes: LIMITS.suiteDiskBytesMax,
  fileBytes: LIMITS.suiteProjectBytesMax,
  openFiles: 8192,
}

/** A run, and what is known of it so far: all of that is reported, however it ends. */
class SuiteRun {
  readonly failures: Failure[] = []
  readonly #monitor: Suite
  readonly #context: ScriptContext
  readonly #host: ScriptHost
  readonly #watcher: SuiteWatcher
  readonly #facts: Record<string, unknown> = {}
  readonly #notes: string[] = []
  #degraded = false

  constructor(monitor: Suite, context: ScriptContext, host: ScriptHost, watcher: SuiteWatcher) {
    this.#monitor = monitor
    this.#context = context
    this.#host = host
    this.#watcher = watcher
  }

  observation(): Observation {
    const notes = this.#notes.length === 0 ? {} : { notes: this.#notes }
    const observed = { ...this.#facts, ...notes }
    return { observed, failures: this.failures, ...(this.#degraded ? { degraded: true } : {}) }
  }

  /** Puts project, engine and packages there. Rejects with a TargetFailure where one cannot be had. */
  async prepare(): Promise<Stage> {
    const [monitor, context, host] = [this.#monitor, this.#context, this.#host]
    const began = performance.now()
    context.progress?.({ phase: 'prepare' })
    const folder = await context.workFolder()
    const project = await placeProject(monitor.codeBundlePath, folder, host, context.signal)
    const workingDir = await workingDirOf(monitor, project)
    const engine = await this.#engine(foldersUpward(project.folder, workingDir))
    const { NODE_OPTIONS } = context.variables ?? {}
    const environment = {
      ...scriptEnvironment(monitor, context),
      // Scripts have one of ours; a suite may want more memory, for one.
      ...(NODE_OPTIONS === undefined ? {} : { NODE_OPTIONS }),
    }
    const programs = await enginePrograms(engine, folder)
    context.progress?.({ phase: 'install' })
    const packages = await installPackages({
      host,
      context,
      folder,
      project,
      workingDir,
      installCommand: monitor.installCommand ?? undefined,
      engine,
      programs,
      owner: monitor.id,
      environment,
      limits: LIMITS_OF_SUITES,
      onOutput: this.#installLines(),
    })
    if (packages.how === 'installed') {
      await workingDirOf(monitor, project)
      // The installation may have put links into the place of what is ours, through which we would write.
      await removeTree(join(folder, '.vedette'))
      await enginePrograms(engine, folder)
    }
    if (packages.note !== undefined) this.#notes.push(packages.note)
    this.#facts['packages'] = packages.how
    this.#facts['preparedMs'] = Math.round(performance.now() - began)
    const cwd = join(project.folder, workingDir)
    return { folder, cwd, project, engine, programs, packages, environment }
  }

  /** Reports the last line as progress. Whole ones: what a chunk ends with may be a part of a secret. */
  #installLines(): (chunk: Buffer, stream: OutputStream) => void {
    const [stdout, stderr] = [new LineSplitter(LINE_BYTES_MAX), new LineSplitter(LINE_BYTES_MAX)]
    const lines = { stdout, stderr }
    return (chunk, stream) => {
      this.#watcher.onOutput?.(chunk)
      const line = lines[stream].add(chunk).findLast((one) => one.trim() !== '')
      if (line === undefined) return
      this.#context.progress?.({ phase: 'install', line: excerpt(line.trimEnd(), LINE_CHARS_MAX) })
    }
  }

  async #engine(folders: readonly string[]): Promise<InstalledTool> {
    const chosen = await suiteEngine(this.#monitor, folders)
    if (typeof chosen === 'string') throw targetFailure('SETTINGS_INVALID', chosen)
    const { engine, notice, from } = chosen
    Object.assign(this.#facts, { engine, engineFrom: from })
    if (notice !== undefined) this.#notes.push(`${from}: ${notice}`)
    const { tools } = this.#host
    const found = await tools.find('engine', engine)
    if (found !== undefined) return found
    throw missingTool(tools, 'engine', engine, { engine, from })
  }

  async runTests(stage: Stage): Promise<void> {
    const { folder, cwd, project, engine, programs, packages } = stage
    const [{ testCommand, installCommand }, host] = [this.#monitor, this.#host]
    const missing = await missingPackage(testCommand, foldersUpward('/', cwd))
    if (missing !== undefined) throw notBrought(testCommand, missing, installCommand === '')
    const core = await findPlaywrightCore(cwd)
    const chromium = await findChromium(host.chromiumPath)
    const ffmpeg = await findProgram('ffmpeg')
    let isVideoMissing = false
    await wrapConfigs(project.folder, cwd, ownProgram(folder, 'suite-wrapping.cjs'), testCommand)
    const htmlFolder = join(folder, '.vedette', 'html')
    const cli = await cliOf(cwd)
    const run = await runPlaywright({
      host,
      context: this.#context,
      folder,
      cwd,
      ...suiteCommand(testCommand, engine, cli),
      programs,
      readable: [engine.folder, ...packages.readable],
      environment: {
        PLAYWRIGHT_HTML_OUTPUT_DIR: htmlFolder,
        PLAYWRIGHT_HTML_REPORT: htmlFolder,
        PLAYWRIGHT_HTML_OPEN: 'never',
        PW_TEST_HTML_REPORT_OPEN: 'never',
        ...(ffmpeg === undefined ? { VEDETTE_VIDEO: '0' } : {}),
        // Tests run what the project brings; npx downloads no other package.
        npm_config_yes: 'false',
        ...stage.environment,
      },
      limits: LIMITS_OF_SUITES,
      code: cli === undefined ? undefined : codeOf(cli, engine, packages),
      browser:
        core === undefined || chromium === undefined ? undefined : { chromium, core, ffmpeg },
      onEvent: (event, report) => {
        this.#watcher.onEvent?.(event, report)
        isVideoMissing ||= event.event === 'end' && event.isVideoMissing === true
      },
      onOutput: (chunk) => this.#watcher.onOutput?.(chunk),
    })
    if (isVideoMissing) this.#notes.push(NO_VIDEO)
    await this.#conclude(run, folder, htmlFolder)
  }

  async #conclude(
    { end, report, refusals }: PlaywrightRun,
    folder: string,
    htmlFolder: string,
  ): Promise<void> {
    const context = this.#context
    const { total, unfinished } = report.stats
    context.progress?.({ phase: 'upload', done: total - unfinished, total })
    const verdict = suiteVerdict(end, report)
    this.failures.push(...verdict.failures)
    this.#degraded = verdict.degraded
    const { engine, engineFrom } = this.#facts
    const { blocked, usage, layers, exitCode } = end
    Object.assign(this.#facts, observedTests(report), {
      exitCode,
      usage,
      layers,
      ...(blocked.length === 0 ? {} : { blocked }),
      ...(refusals.length === 0 ? {} : { refusals }),
      ...(verdict.failures.length === 0 ? {} : { output: end.tail.stdout.slice(-4000) }),
    })
    this.#notes.push(...missingBrowsers(report), ...blockedNotes(blocked))
    const facts = { engine, engineFrom }
    this.#notes.push(...(await attachSuiteFiles({ folder, htmlFolder, report, facts, context })))
  }
}

async function workingDirOf({ workingDir }: Suite, { folder }: PlacedProject): Promise<string> {
  const inside = normalize(`./${workingDir ?? '.'}`).replace(/(?<=.)\/+$/, '')
  const leadsOut = inside === '..' || inside.startsWith('../') || inside.includes('\0')
  const found = !leadsOut && (inside === '.' || (await leadsInside(join(folder, inside), folder)))
  if (found) return inside
  throw targetFailure('BUNDLE_INVALID', `workingDir ${inside} is not a folder of the project`)
}

/** Playwright's code, for an engine. */
function codeOf(cli: string, engine: InstalledTool, { key }: InstalledPackages) {
  const modules = dirname(dirname(dirname(cli)))
  return { modules, program: engine.program, isBun: isBun(engine), packagesKey: key }
}

function notBrought(testCommand: string, missing: string, isBare: boolean): TargetFailure {
  const fix = isBare
    ? 'with an empty installCommand it must bring its node_modules'
    : 'add the package that provides it to the devDependencies of the project'
  const message = `the test command ${testCommand} runs ${missing}, which the project does not have; ${fix}`
  return targetFailure('SUITE_INVALID', message, { command: testCommand, lacking: missing })
}

const NO_VIDEO = 'videos are left out: the machine of the agent has no ffmpeg'

/** Playwright's program in the project, if it is there. */
async function cliOf(cwd: string): Promise<string | undefined> {
  for (const folder of foldersUpward('/', cwd)) {
    const path = join(folder, 'node_modules/@playwright/test/cli.js')
    if (await exists(path)) return path
  }
  return undefined
}

/** A new project of Playwright has projects for all three browsers. */
function missingBrowsers({ tests }: PlaywrightReport): string[] {
  const errors = tests.flatMap(({ attempts }) => attempts.flatMap((one) => one.errors))
  const missing = /Executable doesn't exist at .*\/(?:firefox|webkit)-/
  if (!errors.some(({ message }) => missing.test(message))) return []
  return [
    'an agent has only Chromium, no Firefox or WebKit; select projects, as with --project chromium',
  ]
}

/** Of a line of an installation, shown and read. */
const LINE_CHARS_MAX = 200
const LINE_BYTES_MAX = 65_536
