// The worker thread in which expensive assertions are evaluated, so that no regular expression
// stops the event loop. It is ended from outside when its time is up.
import { parentPort } from 'node:worker_threads'
import { evaluate, prepare, type Evaluation, type Material } from './evaluate.ts'
import type { Assertion } from '../../contract/assertion.ts'
import { StepsExceeded } from '../../contract/json-path/json-path.ts'

/** One assertion to evaluate. */
export interface EvaluationRequest {
  id: number
  assertion: Assertion
  /** Undefined: the same as in the request before. */
  material: Material | undefined
}

/** `started` says that the thread is awake, has parsed the JSON, and the clock for this request runs from now. */
export type EvaluationReply =
  | { id: number; started: true }
  | { id: number; evaluation: Evaluation }
  | { id: number; fault: string; tooExpensive: boolean }

if (parentPort === null) throw new Error('evaluate-worker.ts runs as a worker thread only')
const port = parentPort
let material: Material | undefined

port.on('message', (request: EvaluationRequest) => {
  material = request.material ?? material
  if (request.material !== undefined) prepare(request.material)
  reply({ id: request.id, started: true })
  try {
    if (material === undefined) throw new Error('no material to evaluate')
    reply({ id: request.id, evaluation: evaluate(request.assertion, material, STEPS_MAX) })
  } catch (error) {
    const tooExpensive = error instanceof StepsExceeded
    reply({ id: request.id, fault: (error as Error).message, tooExpensive })
  }
})

/** Time is the first bound here; this one keeps lists of matches well within the memory of the thread. */
const STEPS_MAX = 5_000_000

function reply(message: EvaluationReply): void {
  port.postMessage(message)
}
