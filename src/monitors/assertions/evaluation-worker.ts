// The worker thread in which expensive assertions are evaluated, so that no regular expression
// stops the event loop. It is ended from outside when its time is up.
import { parentPort } from 'node:worker_threads'
import { evaluate, prepare, type Evaluation, type Material } from './evaluate.ts'
import type { Assertion } from '../../contract/assertion.ts'
import { StepsExceeded } from '../../contract/json-path/json-path.ts'

/** One assertion to evaluate. */
export interface EvaluationRequest {
  assertion: Assertion
  /** Undefined: the same as in the request before. */
  material: Material | undefined
}

/** `started` says that the thread is awake, has parsed the JSON, and the clock for this request runs from now. */
export type EvaluationReply =
  { started: true } | { evaluation: Evaluation } | { fault: string; tooExpensive: boolean }

/** Time is the first bound here; this one keeps lists of matches well within the memory of the thread. */
const STEPS_MAX = 5_000_000

if (parentPort === null) throw new Error('evaluation-worker.ts runs as a worker thread only')
const port = parentPort
let material: Material | undefined

port.on('message', (request: EvaluationRequest) => {
  material = request.material ?? material
  if (request.material !== undefined) prepare(request.material)
  reply({ started: true })
  try {
    reply({ evaluation: evaluate(request.assertion, material as Material, STEPS_MAX) })
  } catch (error) {
    const tooExpensive = error instanceof StepsExceeded
    reply({ fault: (error as Error).message, tooExpensive })
  }
})

function reply(message: EvaluationReply): void {
  port.postMessage(message)
}
