// Run of an API monitor with scripts: set-up script, request, tear-down script, evaluation. Loaded at the first such
// run, so that agents without scripts do not load it.
import type { ApiMonitor, ApiRequest } from '../../contract/http-monitor.ts'
import type { Failure } from '../../contract/failure.ts'
import { toMicroseconds } from '../../contract/schema/duration.ts'
import { LIMITS } from '../../contract/versions.ts'
import { prepareApi } from './plan.ts'
import { changeAnswer, shownResponse } from './script-answer.ts'
import {
  scriptErrorFailure,
  scriptFile,
  startScriptHost,
  type ApiScriptHost,
  type ApiScriptsObserved,
  type ScriptStep,
} from '../../scripts/api/host.ts'
import { changedRequest, shownRequest } from '../../scripts/api/request.ts'
import type {
  ScriptOrder,
  ScriptMessage,
  SetUpDone,
  TearDownDone,
} from '../../scripts/api/messages.ts'
import { withDeadline } from '../../network/deadline.ts'
import { checkHttp, evaluateTrip } from '../http/check.ts'
import { type HttpPlan, travel, type Trip } from '../http/trip.ts'
import type { Observation } from '../../contract/observation.ts'
import type { ScriptContext } from '../../scripts/context.ts'
import type { ScriptHost } from '../../scripts/host.ts'
import { scriptRuntime, type ScriptRuntime } from '../../scripts/runtime.ts'
import { failureOf, TargetFailure, targetFailure } from '../../network/target-failure.ts'

const BYTES_MAX = LIMITS.apiScriptDataBytesMax

/** Runs it. Rejects with the signal's reason when the run is cancelled. */
export async function runScriptedApi(
  monitor: ApiMonitor,
  context: ScriptContext,
): Promise<Observation> {
  let run: ScriptedRun | undefined
  let observation: Observation
  try {
    const { scripts } = context
    if (scripts === undefined) {
      throw targetFailure('SCRIPT_UNSUPPORTED', 'this agent does not run scripts')
    }
    const runtime = await scriptRuntime(scripts.tools, monitor.runtimeId)
    run = new ScriptedRun(monitor, context, scripts, runtime)
    observation = await run.run()
  } catch (error) {
    observation = { observed: {}, failures: [failureOf(error, { phase: 'send' })] }
  } finally {
    await run?.end()
  }
  if (run === undefined) return observation
  observation.observed['scripts'] = run.shown
  return run.undisclosed === undefined
    ? observation
    : { ...observation, undisclosed: { ...observation.undisclosed, ...run.undisclosed } }
}

class ScriptedRun {
  /** Report of the scripts. */
  readonly shown: ApiScriptsObserved
  /** Values produced by the set-up script. */
  undisclosed: Record<string, unknown> | undefined
  readonly #monitor: ApiMonitor
  readonly #context: ScriptContext
  readonly #scripts: ScriptHost
  readonly #runtime: ScriptRuntime
  #host: ApiScriptHost | undefined

  constructor(
    monitor: ApiMonitor,
    context: ScriptContext,
    scripts: ScriptHost,
    runtime: ScriptRuntime,
  ) {
    this.#monitor = monitor
    this.#context = context
    this.#scripts = scripts
    this.#runtime = runtime
    this.shown = { runtime: runtime.id, console: [] }
  }

  async run(): Promise<Observation> {
    const request = await this.#setUp()
    const plan = this.#planOf(request)
    const { signal } = this.#context
    const { maxResponseTime, localTearDownScript } = this.#monitor
    /** The time of the request alone, within that of the whole run. */
    const inTime = <T>(go: (context: ScriptContext) => Promise<T>) =>
      withDeadline(signal, maxResponseTime, (limited) => go({ ...this.#context, signal: limited }))
    if (!has(localTearDownScript)) return inTime((context) => checkHttp(plan, context))
    plan.bufferBytes = LIMITS.unpackedBytesMax
    const trip = await inTime((context) => travel(plan, context))
    return evaluateTrip(plan, trip, signal, () => this.#tearDown(request, trip))
  }

  /** A bad request made by a script is a failure of the script, not of the settings. */
  #planOf(request: ApiRequest): HttpPlan {
    try {
      return prepareApi({ ...this.#monitor, request })
    } catch (error) {
      if (request === this.#monitor.request) throw error
      const { message, details } = failureOf(error, { phase: 'send' })
      const problem = `the request is invalid after the set-up script: ${message}`
      throw targetFailure('SCRIPT_FAILED', problem, details)
    }
  }

  /** Ends the script process and completes the report. */
  async end(): Promise<void> {
    const host = this.#host
    if (host === undefined) return
    await host.close()
    const { end, console } = host
    this.shown.console = console.lines
    if (console.leftOut > 0) this.shown.consoleLeftOut = console.leftOut
    const refused = host.refused()
    if (refused.length > 0) this.shown.refused = refused
    if (end === undefined) return
    const { cpuMs, peakMemoryBytes, processesMax } = end.usage
    this.shown.usage = { cpuMs, peakMemoryBytes, processesMax }
  }

  async #setUp(): Promise<ApiRequest> {
    const monitor = this.#monitor
    if (!has(monitor.localSetupScript)) return monitor.request
    const { variables = {}, written } = this.#context
    const done = (await this.#script({
      step: 'set-up',
      file: scriptFile(monitor, 'set-up'),
      bytesMax: BYTES_MAX,
      request: shownRequest(monitor.request),
    })) as SetUpDone
    this.undisclosed = namedValues(done)
    const removed = new Set(done.removed)
    const lookup = (name: string) => {
      if (Object.hasOwn(done.variables, name)) return done.variables[name]
      return removed.has(name) || !Object.hasOwn(variables, name) ? undefined : variables[name]
    }
    const request = changedRequest({ monitor, written: written?.['request'] }, lookup, done)
    // It may have got variables of the script.
    this.undisclosed = { ...this.undisclosed, request }
    return request
  }

  /** A script failure is a failure of the check; assertions are evaluated all the same. */
  async #tearDown(request: ApiRequest, trip: Trip): Promise<Failure[]> {
    const response = shownResponse(trip, BYTES_MAX / 2)
    if (response.bodyTruncated === true) {
      this.shown.notes = [
        `the tear-down script got the first ${response.body.length} characters of the body`,
      ]
    }
    try {
      const done = (await this.#script({
        step: 'tear-down',
        file: scriptFile(this.#monitor, 'tear-down'),
        bytesMax: BYTES_MAX,
        request: shownRequest(request),
        response,
      })) as TearDownDone
      changeAnswer(trip, response, done)
      return []
    } catch (error) {
      return [failureOf(error, { phase: 'send' })]
    }
  }

  async #script(order: ScriptOrder): Promise<ScriptMessage> {
    const { step } = order
    if (Buffer.byteLength(JSON.stringify(order.request)) > BYTES_MAX / 2) {
      const message = `the request is larger than the ${BYTES_MAX / 2} bytes that scripts can handle`
      throw targetFailure('SETTINGS_INVALID', message)
    }
    const report = { durationMs: 0 }
    const host = (this.#host ??= await startScriptHost({
      monitor: this.#monitor,
      context: this.#context,
      sandbox: await this.#scripts.sandbox(),
      runtime: this.#runtime,
    }))
    const startedAt = performance.now()
    try {
      const answer = await host.run(order)
      if (!('error' in answer)) return answer
      throw new TargetFailure(scriptErrorFailure(answer.error, `the ${step} script`))
    } catch (error) {
      if (error instanceof TargetFailure) Object.assign(report, { error: error.message })
      throw error
    } finally {
      report.durationMs = toMicroseconds(performance.now() - startedAt)
      this.shown[NAMES[step]] = report
    }
  }
}

const NAMES = { 'set-up': 'setUp', 'tear-down': 'tearDown' } as const satisfies Record<
  ScriptStep,
  keyof ApiScriptsObserved
>

const has = (script: string | null | undefined) => (script ?? '').trim() !== ''

/** As name-value pairs, in which secrets are found by their names. */
function namedValues({ request, variables }: SetUpDone): Record<string, unknown> {
  const listed = (pairs: Iterable<[string, string]>) =>
    Array.from(pairs, ([key, value]) => ({ key, value }))
  return {
    url: request.url,
    headers: listed(request.headers),
    queryParameters: listed(request.queryParameters),
    variables: listed(Object.entries(variables)),
  }
}
