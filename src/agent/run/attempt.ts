// One attempt of a job: runs the monitor, aborts it at its deadline or when cancelled, abandons it when it does not end,
// and repeats it where the delay of our own event loop would decide its verdict.
import { failure, FAILURES, type Failure, type FailureCode } from '../../contract/failure.ts'
import type { Artifact } from '../../contract/result.ts'
import { DeadlineReached } from '../../network/deadline.ts'
import { DATA_DIR_CODE, diskProblem, isDiskFull } from '../../process/disk-problem.ts'
import type { Run } from '../../monitors/monitor.ts'
import type { Observation } from '../../contract/observation.ts'
import type { ScriptContext } from '../../scripts/context.ts'
import { createWorkFolder, type FileCare, type WorkFolder } from './work-folder.ts'
import { isMadeByDelay, withoutVerdict } from './verdict.ts'
import { loopDelay } from './loop-delay.ts'
import { Fault, placesOf } from '../../process/faults/fault.ts'

export interface AttemptOrder {
  run: Run
  /** The monitor as its schema has parsed it. */
  monitor: unknown
  /** How long the run may take to end after its deadline; `OVERRUN_MS_MAX` where absent. Milliseconds. */
  overrunMsMax?: number | undefined
  deadlineMs: number
  workRoot: string
  /** Contains the run's folder while it exists. */
  workFolders?: Set<string> | undefined
  /** Handling of the run's files. */
  care: FileCare
  /** What the run gets besides its signal and its work folder. */
  context: Omit<ScriptContext, 'signal' | 'workFolder' | 'attach'>
  /** How late our event loop has been since the attempt began. Milliseconds. */
  delayMs?: (() => number) | undefined
}

export interface AttemptOutcome {
  observation: Observation
  artifacts: Artifact[]
  /** Attached files that are left out: a sentence each. */
  leftOut?: readonly string[]
  /** The monitor was still running when it was abandoned. */
  abandoned: boolean
  /** What the attempt observed before it was repeated: its values are secret as well. */
  discarded?: Observation
}

export interface RunningAttempt {
  /** Never rejects. */
  outcome: Promise<AttemptOutcome>
  /** Asks the monitor to end at once. */
  cancel(reason: string): void
}

class RunCancelled extends Error {
  constructor(reason: string) {
    super(reason)
    this.name = 'RunCancelled'
  }
}

/** Time that a monitor may run after its deadline or cancellation before it is abandoned. */
export const OVERRUN_MS_MAX = 2000

/** Starts one attempt, with a work folder of its own, and limits it to its deadline. */
export function startAttempt(order: AttemptOrder): RunningAttempt {
  const { run, deadlineMs, workRoot, care } = order
  const overrunMs = order.overrunMsMax ?? OVERRUN_MS_MAX
  const controller = new AbortController()
  const cut = new AbortController()
  const folder = createWorkFolder(workRoot, care, order.workFolders)
  let timer: NodeJS.Timeout
  let giveUp: (observation: Observation) => void
  let isOver = false
  const abandoned = new Promise<Observation>((resolve) => (giveUp = resolve))

  const end = (reason: Error) => {
    if (controller.signal.aborted || isOver) return
    clearTimeout(timer)
    timer = setTimeout(() => giveUp(stillRunning(reason, overrunMs)), overrunMs)
    controller.abort(reason)
  }
  // Our own delay is not the target's: it is added to the deadline, which at most doubles.
  let addedMs = 0
  const onTime = () => {
    const moreMs = Math.min(order.delayMs?.() ?? 0, deadlineMs) - addedMs
    if (moreMs < 1) return end(new DeadlineReached(deadlineMs))
    addedMs += moreMs
    timer = setTimeout(onTime, moreMs)
  }
  timer = setTimeout(onTime, deadlineMs)

  const context: ScriptContext = {
    ...order.context,
    ...(care.clean && { withoutSecrets: care.clean }),
    signal: controller.signal,
    workFolder: () => folder.path(),
    attach: (path) => folder.attach(path),
  }
  const observed = observe(run, context, controller.signal, workRoot)
  const first = Promise.race([
    observed.then((observation) => ({ observation, abandoned: false })),
    abandoned.then((observation) => ({ observation, abandoned: true })),
  ])
  return {
    outcome: first.then((one) => {
      isOver = true
      clearTimeout(timer)
      const outcome: AttemptOutcome = { ...one, artifacts: [] }
      // The common case, a monitor without files, must not cost a turn of the event loop.
      return folder.isMade() ? withArtifacts(outcome, folder, cut.signal) : outcome
    }),
    cancel(reason) {
      cut.abort()
      end(new RunCancelled(reason))
    },
  }
}

async function observe(
  run: Run,
  context: ScriptContext,
  signal: AbortSignal,
  workRoot: string,
): Promise<Observation> {
  let observation: Observation
  try {
    observation = await run(context)
  } catch (error) {
    observation = { observed: {}, failures: [failureOfThrown(error, signal, workRoot)] }
  }
  const { reason } = signal as { reason: unknown }
  if (!(reason instanceof RunCancelled)) return observation
  // A cancelled run says nothing about the target.
  return { ...observation, failures: [failure('CANCELLED', reason.message)] }
}

// A monitor reports its own timeouts; one that only throws what it was aborted with has a fault.
function failureOfThrown(error: unknown, signal: AbortSignal, workRoot: string) {
  if (error instanceof RunCancelled) return failure('CANCELLED', error.message)
  // Below the work root only the run's folder is written.
  const { path, dest = '' } = (error ?? {}) as { path?: string; dest?: string }
  // Errors of writes carry no path.
  const isFull = path === undefined && isDiskFull(error ?? {})
  // A folder above it could not be made.
  const isAbove = path !== undefined && workRoot.startsWith(`${path}/`)
  const isInside =
    isFull || isAbove || path?.startsWith(workRoot) === true || dest.startsWith(workRoot)
  const problem = isInside ? diskProblem(error, workRoot) : undefined
  if (problem !== undefined) return failure(DATA_DIR_CODE, problem)
  const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
  if (error === signal.reason)
    return failure('INTERNAL', `the deadline was not handled: ${message}`)
  return failure('INTERNAL', message, stackOf(error))
}

/** Enough to find the place, without filling results. */
const STACK_CHARS_MAX = 2000

function stackOf(error: unknown): Record<string, unknown> | undefined {
  if (!(error instanceof Error) || error.stack === undefined) return undefined
  return { stack: error.stack.slice(0, STACK_CHARS_MAX) }
}

function stillRunning(reason: Error, overrunMs: number): Observation {
  const message = `${reason.message}; the run did not end within another ${overrunMs} ms`
  const ignored = failure('DEADLINE_IGNORED', message)
  const failures =
    reason instanceof RunCancelled ? [failure('CANCELLED', reason.message), ignored] : [ignored]
  return { observed: {}, failures }
}

async function withArtifacts(
  outcome: AttemptOutcome,
  folder: WorkFolder,
  cut: AbortSignal,
): Promise<AttemptOutcome> {
  const files = await folder.artifacts(cut)
  // A folder that cannot be removed costs disk space, not the result.
  await folder.remove().catch(() => undefined)
  return { ...outcome, ...files }
}

/**
 * Starts an attempt. Where the delay of our event loop would make it degraded or failed, it is repeated at once,
 * within the same attempt. Where the delay would decide again, it ends with AGENT_OVERLOADED.
 */
export function startUndelayed(order: AttemptOrder): RunningAttempt {
  const { monitor, deadlineMs } = order
  let running: RunningAttempt
  let isCancelled = false

  const once = async () => {
    const loop = loopDelay.watch()
    const beganMs = performance.now()
    running = startAttempt({ ...order, delayMs: () => loop.delayMs() })
    const outcome = await running.outcome
    const times = { elapsedMs: performance.now() - beganMs, deadlineMs, delayMs: loop.delayMs() }
    loop.end()
    const { observation } = outcome
    const isByDelay = isMadeByDelay(observation, monitor, times)
    if (isByDelay) outcome.observation = withoutVerdict(observation, times)
    return { outcome, isByDelay }
  }
  const twice = async (): Promise<AttemptOutcome> => {
    const first = await once()
    if (!first.isByDelay || isCancelled) return first.outcome
    const { outcome } = await once()
    return { ...outcome, discarded: first.outcome.observation }
  }
  return {
    outcome: twice(),
    cancel(reason) {
      isCancelled = true
      running.cancel(reason)
    },
  }
}

/** Codes of defects in the agent, whatever the target and the settings are. */
const OWN_FAULTS: ReadonlySet<string> = new Set<FailureCode>(['INTERNAL', 'DEADLINE_IGNORED'])

/** The fault behind a failure; undefined where it concerns the target, the settings or the machine. */
export function ownFault(
  { code, message, details }: Failure,
  checkType: string,
): Fault | undefined {
  if (!OWN_FAULTS.has(code)) return undefined
  const [, type = code, rest = message] = /^(\w{0,35}Error): (.*)$/s.exec(message) ?? []
  const stack = details?.['stack']
  const at = typeof stack === 'string' ? placesOf({ message: rest, stack }) : []
  const text = `${FAILURES[code as FailureCode].meaning} (${checkType})`
  return new Fault(type, at, { code, text })
}
