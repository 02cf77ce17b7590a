// The line in front of the worker thread that evaluates expensive assertions: one at a time, in order,
// each with its own time; a thread that overstays is ended and a new one is started when needed.
import { Worker } from 'node:worker_threads'
import type { Assertion } from '../../contract/assertion.ts'
import { failure, type Failure } from '../../contract/failure.ts'
import { LIMITS } from '../../contract/versions.ts'
import type { EvaluationReply, EvaluationRequest } from './evaluation-worker.ts'
import type { Evaluation, Material } from './evaluate.ts'
import { isDeadline } from '../../network/deadline.ts'

/** How the thread's work ended: with a evaluation, or with the reason why there is none. */
export type ThreadOutcome = { evaluation: Evaluation } | { failure: Failure }

interface Waiting {
  assertion: Assertion
  material: Material
  settle(outcome: ThreadOutcome): void
}

/** Idle time after which the thread is ended. */
const REST_MS_MAX = 30_000

/** For the thread to start and to receive the text; only a machine in great distress needs as long. */
const AWAKE_MS_MAX = 10_000

/** The line and its thread; exported for tests, everybody else calls `evaluateInThread`. */
export class EvaluationThread {
  readonly #awakeMsMax: number
  readonly #line: Waiting[] = []
  #current: Waiting | undefined
  #worker: Worker | undefined
  #sent: Material | undefined
  #timer: NodeJS.Timeout | undefined
  #id = 0

  constructor(awakeMsMax = AWAKE_MS_MAX) {
    this.#awakeMsMax = awakeMsMax
  }

  /** Evaluators in the thread; never rejects, and ends at once when the signal is aborted. */
  evaluate(assertion: Assertion, material: Material, signal: AbortSignal): Promise<ThreadOutcome> {
    if (signal.aborted) return Promise.resolve({ failure: abortedFailure(signal) })
    if (this.#line.length >= LIMITS.assertionsWaitingMax) {
      const message = `${this.#line.length} expensive assertions are waiting already`
      return Promise.resolve({ failure: failure('ASSERTION_QUEUE_FULL', message) })
    }
    return new Promise((resolve) => {
      const leave = () => {
        const place = this.#line.indexOf(one)
        if (place >= 0) this.#line.splice(place, 1)
        // The running evaluation continues to the end of its time; its result is discarded.
        resolve({ failure: abortedFailure(signal) })
      }
      const one: Waiting = {
        assertion,
        material,
        settle: (outcome) => {
          signal.removeEventListener('abort', leave)
          resolve(outcome)
        },
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#line.push(one)
      this.#next()
    })
  }

  #next(): void {
    if (this.#current !== undefined) return
    const one = this.#line.shift()
    if (one === undefined) {
      this.#rest()
      return
    }
    clearTimeout(this.#timer)
    this.#current = one
    const worker = (this.#worker ??= this.#start())
    worker.ref()
    const request: EvaluationRequest = {
      id: ++this.#id,
      assertion: one.assertion,
      material: one.material === this.#sent ? undefined : one.material,
    }
    this.#sent = one.material
    this.#expireIn(this.#awakeMsMax, notAwake(this.#awakeMsMax))
    worker.postMessage(request, [])
  }

  /** Idle: does not keep the process alive, and ends after the idle time. */
  #rest(): void {
    this.#worker?.unref()
    this.#timer = setTimeout(() => {
      const worker = this.#worker
      this.#worker = undefined
      this.#sent = undefined
      void worker?.terminate()
    }, REST_MS_MAX).unref()
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
    worker.on('message', (reply: EvaluationReply) => this.#onReply(worker, reply))
    worker.on('error', (error) => this.#lose(worker, reasonOf(error)))
    worker.on('exit', () => this.#lose(worker, 'its thread ended'))
    return worker
  }

  #onReply(worker: Worker, reply: EvaluationReply): void {
    if (worker !== this.#worker || reply.id !== this.#id) return
    if ('started' in reply) this.#expireIn(LIMITS.regexMs, tooSlow())
    else if ('evaluation' in reply) this.#finish({ evaluation: reply.evaluation })
    else if (reply.tooExpensive) this.#finish({ failure: tooExpensive(reply.fault) })
    else this.#finish({ failure: invalid(reply.fault) })
  }

  #lose(worker: Worker, reason: string): void {
    if (worker !== this.#worker) return
    this.#worker = undefined
    this.#finish({ failure: invalid(reason) })
  }

  #expireIn(ms: number, failed: Failure): void {
    clearTimeout(this.#timer)
    const id = this.#id
    this.#timer = setTimeout(() => {
      // Where our own loop was late, the answer may be there already: let it in first.
      setImmediate(() => setImmediate(() => this.#expire(id, failed)))
    }, ms)
  }

  #expire(id: number, failed: Failure): void {
    if (this.#current === undefined || id !== this.#id) return
    const worker = this.#worker
    this.#worker = undefined
    void worker?.terminate()
    this.#finish({ failure: failed })
  }

  #finish(outcome: ThreadOutcome): void {
    clearTimeout(this.#timer)
    const one = this.#current
    this.#current = undefined
    one?.settle(outcome)
    this.#next()
  }
}

function tooSlow(): Failure {
  return tooExpensive(`took longer than ${LIMITS.regexMs} ms`)
}

/** The thread has not even begun, so that no assertion is to blame. */
function notAwake(awakeMsMax: number): Failure {
  const message = `the thread that evaluates was not ready within ${awakeMsMax} ms`
  return failure('RESOURCES_EXHAUSTED', message, { awakeMsMax })
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

const thread = new EvaluationThread()

/**
 * Evaluates an assertion in the worker thread, where it may take LIMITS.regexMs and
 * LIMITS.assertionHeapMiBMax. Never rejects: the failure is ASSERTION_REGEX_TIMEOUT,
 * RESOURCES_EXHAUSTED (the thread was not ready in time), ASSERTION_QUEUE_FULL, ASSERTION_INVALID (memory), or CANCELLED.
 */
export function evaluateInThread(
  assertion: Assertion,
  material: Material,
  signal: AbortSignal,
): Promise<ThreadOutcome> {
  return thread.evaluate(assertion, material, signal)
}
