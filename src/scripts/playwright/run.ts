// One run of Playwright's test runner in the sandbox, for suites and scripted monitors alike: with our reporter in
// addition to the user's own, an installed browser, egress, and events as they happen.
import { constants } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import type { StopRequest, SandboxLimits, SandboxEnd, OutputStream } from '../../sandbox/request.ts'
import { readableFor } from '../chromium.ts'
import type { ScriptContext } from '../context.ts'
import type { ScriptHost } from '../host.ts'
import { extraAuthorities } from '../../network/tls/extra-authorities.ts'
import { followLines } from '../../sandbox/lines.ts'
import { readBrowserLogs } from './browser-headers.ts'
import { BROWSER_LOGS, prepareBrowsers, type BrowserPrograms } from './browsers.ts'
import { type CodeToCompile, compiledCode } from './compiled-code.ts'
import { isPageEvent, type PageEvent, parseRunEvent, type PlaywrightEvent } from './events.ts'
import { headerEnvironment } from './observed-headers.ts'
import { copyOwnPrograms, ownProgram } from '../own-programs.ts'
import { PlaywrightReportBuilder, reportProgress, type PlaywrightReport } from './report.ts'
import type { ProxyRefusal, RunProxy } from '../../sandbox/egress/run-proxy.ts'
import { openEgress, type Egress } from '../../sandbox/egress/egress.ts'

export interface PlaywrightOrder {
  host: Pick<ScriptHost, 'sandbox' | 'cacheFolder'>
  context: Pick<ScriptContext, 'signal' | 'dial' | 'headers' | 'progress'>
  /** An existing folder of the run's own. `.vedette` in there is ours. */
  folder: string
  /** Where it starts; the folder itself where absent. */
  cwd?: string
  /** Absolute path of the program: an engine with Playwright's `cli.js`, or a shell with the user's command. */
  command: string
  args: readonly string[]
  /** In addition to ours; wins over it, but for NODE_OPTIONS, of which both hold. */
  environment?: Readonly<Record<string, string>>
  /** Our program that its processes load first; `run-preload.cjs` where absent. */
  preload?: 'run-preload.cjs' | 'script-preload.cjs'
  programs?: readonly string[]
  readable: readonly string[]
  limits: SandboxLimits
  /** SIGINT to the command alone where absent, on which Playwright ends its tests and reports them. */
  ask?: StopRequest
  /** Code that it shares with other runs in compiled form. */
  code?: CodeToCompile | undefined
  /** The browser, and the package playwright-core that is to find it; absent: there is none. */
  browser?: (BrowserPrograms & { core: string }) | undefined
  /** Called with each event, when it is in the report already. */
  onEvent?(event: PlaywrightEvent, report: PlaywrightReportBuilder): void
  onPage?(event: PageEvent): void
  onOutput?(chunk: Buffer, stream: OutputStream): void
}

export interface PlaywrightRun {
  end: SandboxEnd
  report: PlaywrightReport
  /** Connections through the proxy that could not be made; the first ones. */
  refusals: readonly ProxyRefusal[]
}

/**
 * What Playwright needs for its JSON and its traces when it is asked to end. It waits five seconds for the picture of
 * a page that does not come, which is what there is to see of a run whose time ran out.
 */
export const PLAYWRIGHT_ASK: StopRequest = {
  signal: 'SIGINT',
  to: 'leader',
  graceMs: 3_000,
  lateGraceMs: 9_000,
}
/** The reporter's own bounds for one event are below that of a line. */
const EVENT_BOUNDS = { bytesMax: 134_217_728, lineBytesMax: 4_194_304 }

/** Runs it. Rejects with what a callback of the order threw, or with the signal's reason before it begins. */
export async function runPlaywright(order: PlaywrightOrder): Promise<PlaywrightRun> {
  const { code, context } = order
  const sandbox = await order.host.sandbox()
  const own = await prepareOwnFolder(order)
  const report = new PlaywrightReportBuilder()
  const [fault, over] = [new AbortController(), new AbortController()]
  let egress: Egress | undefined
  try {
    const compiled = code === undefined ? undefined : await compiledCode(code, order)
    context.progress?.({ phase: 'test' })
    egress = await openEgress(sandbox, context.dial, proxyVariables)
    const reading = followLines(own.events, EVENT_BOUNDS, over.signal, (line) =>
      receiveLine(line, order, report),
    )
    reading.catch((error: unknown) => fault.abort(error))
    const end = await sandbox.run(
      {
        ...order,
        ask: order.ask ?? PLAYWRIGHT_ASK,
        environment: {
          ...own.environment,
          ...compiled?.environment,
          ...order.environment,
          ...headerEnvironment(context.headers),
          NODE_OPTIONS: nodeOptions(order),
        },
        ...egress.order,
        programs: [...own.programs, ...(order.programs ?? [])],
        readable: [...own.readable, ...order.readable, ...(compiled?.readable ?? [])],
      },
      AbortSignal.any([context.signal, fault.signal]),
    )
    over.abort()
    await reading
    if (context.headers !== undefined)
      await readBrowserLogs(own.browserLogs, order.folder, context.headers)
    if (end.fault !== undefined) throw end.fault
    report.close(Date.now())
    return { end, report: report.report(), refusals: egress.refusals }
  } finally {
    over.abort()
    await egress?.close()
    await own.events.close()
  }
}

function receiveLine(line: string, order: PlaywrightOrder, report: PlaywrightReportBuilder): void {
  const event = parseRunEvent(line)
  if (event === undefined) return
  if (event.event === 'header') {
    order.context.headers?.saw(event.name, event.value)
  } else if (isPageEvent(event)) {
    order.onPage?.(event)
  } else {
    report.add(event)
    order.onEvent?.(event, report)
    reportProgress(event, report, order.context)
  }
}

interface OwnFolder {
  events: FileHandle
  browserLogs: string
  /** The launcher stands in for the Chromium of the system. */
  programs: string[]
  environment: Record<string, string>
  readable: string[]
}

async function prepareOwnFolder({ folder, browser }: PlaywrightOrder): Promise<OwnFolder> {
  const at = join(folder, '.vedette')
  const [events, browsers] = [join(at, 'events.ndjson'), join(at, 'browsers')]
  await copyOwnPrograms(folder)
  const isFound = browser !== undefined && (await prepareBrowsers(browsers, browser.core, browser))
  return {
    // Opened before the run begins and read through this descriptor alone: what the run puts in its place,
    // such as a pipe or a link, is never opened.
    events: await open(events, constants.O_RDONLY | constants.O_CREAT | constants.O_EXCL),
    environment: {
      ...(await extraAuthorities(at)),
      PW_TEST_REPORTER: ownProgram(folder, 'reporter.cjs'),
      VEDETTE_EVENTS: events,
      PLAYWRIGHT_BROWSERS_PATH: browsers,
      PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD: '1',
      FORCE_COLOR: '0',
    },
    browserLogs: join(browsers, BROWSER_LOGS),
    programs: isFound ? [browsers] : [],
    readable: isFound ? await readableFor(browser.chromium) : [],
  }
}

/** Our program comes before those of a user. */
function nodeOptions({ folder, preload = 'run-preload.cjs', environment = {} }: PlaywrightOrder) {
  const { NODE_OPTIONS = '' } = environment
  return `--require "${ownProgram(folder, preload)}" ${NODE_OPTIONS}`
}

/** `use.proxy` of Playwright as JSON; loopback addresses go through it, too: the policy holds for them as well. */
function proxyVariables({ server, username, password, environment }: RunProxy) {
  const settings = { server, username, password, bypass: '<-loopback>' }
  return { ...environment, VEDETTE_PROXY: JSON.stringify(settings) }
}
