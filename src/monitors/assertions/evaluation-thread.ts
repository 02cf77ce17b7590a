// The worker thread that evaluates expensive assertions: one at a time, in order, each with its own time; a
// thread that overstays is ended and a new one is started when needed.
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import type { Assertion } from '../../contract/assertion.ts'
import { failure, type Failure } from '../../contract/failure.ts'
import { LIMITS } from '../../contract/versions.ts'
import type { EvaluationReply, EvaluationRequest } from './evaluation-worker.ts'
import type { Evaluation, Material } from './evaluate.ts'
import { isDeadline } from '../../network/deadline.ts'

/** How the thread's work ended: with an evaluation, or with the reason why there is none. */
export type ThreadOutcome = { evaluation: Evaluation } | { failure: Failure }

/** Idle time after which the thread is ended. */
const REST_MS_MAX = 30_000

/** For the thread to start and to receive the text; only a machine in great distress needs as long. */
const AWAKE_MS_MAX = 10_000

/** Time for an evaluation on a machine that gives the thread little of its processor. */
const EVALUATION_MS_MAX = 10 * LIMITS.regexMs

/** The thread and the line in front of it; exported for tests, everybody else uses `evaluationThread`. */
export class EvaluationThread {
  readonly #awakeMsMax: number
  /** Assertions in the line, with the one that is evaluated. */
  #pending = 0
  #last: Promise<unknown> = Promise.resolve()
  #worker: Worker | undefined
  /** What the worker has received last. */
  #sent: Material | undefined
  #restTimer: NodeJS.Timeout | undefined

  constructor(awakeMsMax = AWAKE_MS_MAX) {
    this.#awakeMsMax = awakeMsMax
  }

  /**
   * Evaluates an assertion, which may take LIMITS.regexMs of processor time and LIMITS.assertionHeapMiBMax. Never rejects, and
   * ends at once when the signal is aborted. The failure is ASSERTION_REGEX_TIMEOUT, RESOURCES_EXHAUSTED (the
   * thread was not ready in time, or got too little processor time), ASSERTION_QUEUE_FULL, ASSERTION_INVALID (memory), or CANCELLED.
   */
  async evaluate(
    assertion: Assertion,
    material: Material,
    signal: AbortSignal,
  ): Promise<ThreadOutcome> {
    if (signal.aborted) return { failure: abortedFailure(signal) }
    if (this.#pending > LIMITS.assertionsWaitingMax) {
      const message = `${this.#pending} expensive assertions are waiting already`
      return { failure: failure('ASSERTION_QUEUE_FULL', message) }
    }
    this.#pending++
    const leaving = Promise.withResolvers<ThreadOutcome>()
    const leave = () => leaving.resolve({ failure: abortedFailure(signal) })
    signal.addEventListener('abort', leave, { once: true })
    const turn = this.#last
      .then(() => (signal.aborted ? leaving.promise : this.#run(assertion, material)))
      .catch((error: unknown): ThreadOutcome => ({ failure: invalid(reasonOf(error)) }))
    this.#last = turn
    // A running evaluation continues to the end of its time; its result is discarded.
    const outcome = await Promise.race([turn, leaving.promise])
    signal.removeEventListener('abort', leave)
    this.#pending--
    return outcome
  }

  async #run(assertion: Assertion, material: Material): Promise<ThreadOutcome> {
    clearTimeout(this.#restTimer)
    const worker = (this.#worker ??= this.#start())
    worker.ref()
    const outcome = await this.#ask(worker, {
      assertion,
      material: material === this.#sent ? undefined : material,
    })
    this.#sent = material
    // Idle, it does not keep the process alive, and ends after a while.
    worker.unref()
    this.#restTimer = setTimeout(() => this.#stop(), REST_MS_MAX).unref()
    return outcome
  }

  #start(): Worker {
    this.#sent = undefined
    const worker = new Worker(new URL('./evaluation-worker.ts', import.meta.url), {
      env: {},
      name: 'evaluate',
      resourceLimits: {
        maxOldGenerationSizeMb: LIMITS.assertionHeapMiBMax,
        maxYoungGenerationSizeMb: 32,
      },
    })
    const forget = () => {
      if (worker === this.#worker) this.#worker = undefined
    }
    return worker.on('error', forget).on('exit', forget)
  }

  #stop(): void {
    const worker = this.#worker
    this.#worker = undefined
    void worker?.terminate()
  }

  #ask(worker: Worker, request: EvaluationRequest): Promise<ThreadOutcome> {
    const asking = Promise.withResolvers<ThreadOutcome>()
    const fail = (failed: Failure) => asking.resolve({ failure: failed })
    let timer: NodeJS.Timeout | undefined
    const expireIn = (ms: number, failed: Failure) => {
      clearTimeout(timer)
      const own = setTimeout(() => {
        // Where our own loop was late, the answer may be there already: let it in first.
        setImmediate(() => setImmediate(() => timer === own && expire(failed)))
      }, ms)
      timer = own
    }
    const expire = (failed: Failure) => {
      this.#stop()
      fail(failed)
    }
    const limitProcessorTime = async () => {
      expireIn(EVALUATION_MS_MAX, starved())
      const usedMsBefore = await cpuMsOf(worker)
      for (let leftMs = LIMITS.regexMs; leftMs > 0;) {
        await sleep(Math.ceil(leftMs), undefined, { ref: false })
        leftMs = LIMITS.regexMs - ((await cpuMsOf(worker)) - usedMsBefore)
        if (timer === undefined) return
      }
      expireIn(0, tooExpensive(`took longer than ${LIMITS.regexMs} ms of processor time`))
    }
    const onReply = (reply: EvaluationReply) => {
      if ('started' in reply) void limitProcessorTime()
      else if ('evaluation' in reply) asking.resolve(reply)
      else fail(reply.tooExpensive ? tooExpensive(reply.fault) : invalid(reply.fault))
    }
    const onError = (error: unknown) => fail(invalid(reasonOf(error)))
    const onExit = () => fail(invalid('its thread ended'))
    worker.on('message', onReply).on('error', onError).on('exit', onExit)
    expireIn(this.#awakeMsMax, notAwake(this.#awakeMsMax))
    worker.postMessage(request, [])
    return asking.promise.finally(() => {
      clearTimeout(timer)
      timer = undefined
      worker.off('message', onReply).off('error', onError).off('exit', onExit)
    })
  }
}

/** Processor time of a thread. Milliseconds; Infinity for one that has ended. */
async function cpuMsOf(worker: Worker): Promise<number> {
  try {
    const { user, system } = await worker.cpuUsage()
    return (user + system) / 1000
  } catch {
    return Infinity
  }
}

/** The thread has not even begun, so that no assertion is to blame. */
function notAwake(awakeMsMax: number): Failure {
  const message = `the thread that evaluates was not ready within ${awakeMsMax} ms`
  return failure('RESOURCES_EXHAUSTED', message, { awakeMsMax })
}

/** The machine is busy, so that neither assertion nor target is to blame. */
function starved(): Failure {
  const message = `the machine gave an assertion too little processor time in ${EVALUATION_MS_MAX} ms`
  return failure('RESOURCES_EXHAUSTED', message, { evaluationMsMax: EVALUATION_MS_MAX })
}

function tooExpensive(message: string): Failure {
  return failure('ASSERTION_REGEX_TIMEOUT', message)
}

function invalid(reason: string): Failure {
  return failure('ASSERTION_INVALID', `cannot be evaluated: ${reason}`)
}

function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  if (code !== 'ERR_WORKER_OUT_OF_MEMORY') return message
  return `it needs more than ${LIMITS.assertionHeapMiBMax} MiB of memory`
}

function abortedFailure(signal: AbortSignal): Failure {
  return isDeadline(signal)
    ? failure('ASSERTION_REGEX_TIMEOUT', 'was not done when the time of the check was up')
    : failure('CANCELLED', 'was cancelled')
}

/** The thread of this process. */
export const evaluationThread = new EvaluationThread()
