// The worker thread in which expensive assertions are judged, so that nobody's regular expression
// stops the event loop. It is ended from outside when its time is up.
import { parentPort } from 'node:worker_threads'
import { judge, prepare, type Judgement, type Material } from './judge.ts'
import type { Assertion } from '../../contract/assertion.ts'
import { StepsExceeded } from '../../contract/json-path/json-path.ts'

/** One assertion to judge. */
export interface JudgeRequest {
  id: number
  assertion: Assertion
  /** Undefined: the same as in the request before. */
  material: Material | undefined
}

/** `started` says that the thread is awake, has parsed the JSON, and the clock for this request runs from now. */
export type JudgeReply =
  | { id: number; started: true }
  | { id: number; judgement: Judgement }
  | { id: number; fault: string; tooExpensive: boolean }

if (parentPort === null) throw new Error('judge-worker.ts runs as a worker thread only')
const port = parentPort
let material: Material | undefined

port.on('message', (request: JudgeRequest) => {
  material = request.material ?? material
  if (request.material !== undefined) prepare(request.material)
  reply({ id: request.id, started: true })
  try {
    if (material === undefined) throw new Error('no material to judge')
    reply({ id: request.id, judgement: judge(request.assertion, material, STEPS_MAX) })
  } catch (error) {
    const tooExpensive = error instanceof StepsExceeded
    reply({ id: request.id, fault: (error as Error).message, tooExpensive })
  }
})

/** Time is the first bound here; this one keeps lists of matches well within the memory of the thread. */
const STEPS_MAX = 5_000_000

function reply(message: JudgeReply): void {
  port.postMessage(message)
}
