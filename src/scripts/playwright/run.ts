// One run of Playwright's test runner in the sandbox, for suites and scripted monitors alike: with our reporter in
// addition to the user's own, an installed browser, egress, and events as they happen.
import { constants } from 'node:fs'
import { copyFile, mkdir, open, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Sandbox, SandboxEnd, OutputStream } from '../../sandbox/sandbox.ts'
import type { StopRequest, SandboxLimits } from '../../sandbox/request.ts'
import { findProgram, readableFor } from '../chromium.ts'
import type { Dialler } from '../../network/dial.ts'
import { extraAuthorities } from '../../network/tls/extra-authorities.ts'
import { LineTail } from './line-tail.ts'
import { prepareBrowsers } from './browsers.ts'
import { parsePlaywrightEvent, type PlaywrightEvent } from './events.ts'
import { PlaywrightReportBuilder, type PlaywrightReport } from './report.ts'
import type { ProxyRefusal, RunProxy } from '../../sandbox/egress/run-proxy.ts'
import { openEgress, type Egress } from '../../sandbox/egress/egress.ts'

/** What is to run, and where. */
export interface PlaywrightOrder {
  sandbox: Sandbox
  dial: Dialler
  /** An existing folder of the run's own. `.vedette` in there is ours. */
  folder: string
  /** Where it starts; the folder itself where absent. */
  cwd?: string
  /** Absolute path of the program: an engine with Playwright's `cli.js`, or a shell with the user's command. */
  command: string
  args: readonly string[]
  /** In addition to ours; wins over it. */
  environment?: Readonly<Record<string, string>>
  programs?: readonly string[]
  readable?: readonly string[]
  limits: SandboxLimits
  /** SIGINT to the command alone where absent, on which Playwright ends its tests and reports them. */
  ask?: StopRequest
  /** The browser, and the package playwright-core that is to find it; absent: there is none. */
  browser?: { chromium: string; core: string } | undefined
  /** Called with each event, when it is in the report already. */
  onEvent?(event: PlaywrightEvent, report: PlaywrightReportBuilder): void
  /** A line of the events file that is no event of Playwright's. */
  onOther?(line: string): void
  onOutput?(chunk: Buffer, stream: OutputStream): void
}

/** What came of it. */
export interface PlaywrightRun {
  end: SandboxEnd
  report: PlaywrightReport
  /** Connections through the proxy that could not be made; the first ones. */
  refusals: readonly ProxyRefusal[]
  /** Videos can be recorded. */
  hasVideo: boolean
}

/** The setting `use.proxy` of Playwright, as JSON in the variable VEDETTE_PROXY of runs that have a proxy. */
export interface PlaywrightProxy {
  server: string
  username: string
  password: string
  /** Loopback addresses go through it as well: the policy holds for them, too. */
  bypass: string
}

const REPORTER = fileURLToPath(new URL('./reporter.cjs', import.meta.url))
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
/** Events beyond this are left out. */
const EVENT_BYTES_MAX = 134_217_728
/** One event; the reporter's own bounds are below it. */
const LINE_BYTES_MAX = 4_194_304

/** Runs it. Never rejects for what the code did; with what a callback of the order threw, it does. */
export async function runPlaywright(
  order: PlaywrightOrder,
  signal: AbortSignal,
): Promise<PlaywrightRun> {
  const own = await prepareOwnFolder(order)
  const report = new PlaywrightReportBuilder()
  const tail = new LineTail(own.events, { bytesMax: EVENT_BYTES_MAX, lineBytesMax: LINE_BYTES_MAX })
  const fault = new AbortController()
  const either = AbortSignal.any([signal, fault.signal])
  let egress: Egress | undefined
  try {
    egress = await openEgress(order.sandbox, order.dial, proxyVariables)
    tail.follow(
      (line) => receiveLine(line, order, report),
      (error) => fault.abort(error),
    )
    const end = await order.sandbox.run(sandboxRequestOf(order, own, egress), either).ended
    await tail.rest()
    if (end.fault !== undefined) throw end.fault
    fault.signal.throwIfAborted()
    report.close(Date.now())
    return { end, report: report.report(), refusals: egress.refusals, hasVideo: own.hasVideo }
  } finally {
    tail.stop()
    await egress?.close()
    await own.events.close()
  }
}

function receiveLine(line: string, order: PlaywrightOrder, report: PlaywrightReportBuilder): void {
  const event = parsePlaywrightEvent(line)
  if (event === undefined) {
    order.onOther?.(line)
    return
  }
  report.add(event)
  order.onEvent?.(event, report)
}

interface OwnFolder {
  events: FileHandle
  environment: Record<string, string>
  readable: string[]
  hasVideo: boolean
}

/** Copies, because the run's user need not be able to reach the place where this code lies. */
async function prepareOwnFolder({ folder, browser }: PlaywrightOrder): Promise<OwnFolder> {
  const at = join(folder, '.vedette')
  await mkdir(at, { recursive: true })
  const [reporter, eventsFile, browsers] = ['reporter.cjs', 'events.ndjson', 'browsers'].map(
    (name) => join(at, name),
  ) as [string, string, string]
  await copyFile(REPORTER, reporter)
  const ffmpeg = browser === undefined ? undefined : await findProgram('ffmpeg')
  const isFound =
    browser !== undefined &&
    (await prepareBrowsers(browsers, browser.core, { chromium: browser.chromium, ffmpeg }))
  // Opened before the run begins and read through this descriptor alone: what the run puts in its place,
  // such as a pipe or a link, is never opened.
  const events = await open(eventsFile, constants.O_RDONLY | constants.O_CREAT | constants.O_EXCL)
  return {
    events,
    environment: {
      ...(await extraAuthorities(at)),
      PW_TEST_REPORTER: reporter,
      VEDETTE_EVENTS: eventsFile,
      PLAYWRIGHT_BROWSERS_PATH: browsers,
      PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD: '1',
      FORCE_COLOR: '0',
    },
    readable: isFound ? await readableFor(browser.chromium) : [],
    hasVideo: isFound && ffmpeg !== undefined,
  }
}

function proxyVariables({ server, username, password, environment }: RunProxy) {
  const settings: PlaywrightProxy = { server, username, password, bypass: '<-loopback>' }
  return { ...environment, VEDETTE_PROXY: JSON.stringify(settings) }
}

function sandboxRequestOf(order: PlaywrightOrder, own: OwnFolder, egress: Egress) {
  const { command, args, folder, cwd, limits, ask, programs } = order
  return {
    command,
    args,
    folder,
    limits,
    ask: ask ?? PLAYWRIGHT_ASK,
    environment: { ...own.environment, ...order.environment },
    ...egress.order,
    readable: [...own.readable, ...(order.readable ?? [])],
    ...(cwd === undefined ? {} : { cwd }),
    ...(programs === undefined ? {} : { programs }),
    onOutput: (chunk: Buffer, stream: OutputStream) => order.onOutput?.(chunk, stream),
  }
}
