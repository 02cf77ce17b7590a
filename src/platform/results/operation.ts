// POST /agent/v1/results: receives a batch and decompresses it within its bounds.
import { createRepeatedLog } from '../../process/repeated-log.ts'
import type { Context } from 'hono'
import * as z from 'zod'
import {
  PROTOCOL_BOUNDS,
  ResultsAnswer,
  ResultsRequest,
} from '../../contract/protocol/agent-protocol.ts'
import type { Log } from '../../process/log.ts'
import type { Database } from '../../database/database.ts'
import { defineAgentOperation, type DefinedAgentOperation } from '../http/agent-operation.ts'
import { readJsonBytes } from '../http/body.ts'
import { ApiError } from '../http/errors.ts'
import type { OnRecorded } from './recorded.ts'
import { recordDropped, recordResults } from './intake.ts'
import type { ResultsMetrics } from './metrics.ts'

export interface ResultsOperationParts {
  database: Database
  log: Pick<Log, 'warn'>
  metrics: ResultsMetrics
  retentionMs: number
  onRecorded: readonly OnRecorded[]
}

const { batchBytesMax, batchUnpackedBytesMax, resultsPerBatchMax } = PROTOCOL_BOUNDS
const BODY_BOUNDS = {
  bodyBytesMax: batchBytesMax,
  unpackedBytesMax: batchUnpackedBytesMax,
  bodyMs: 30_000,
  gzip: true,
}
/** As it is on the wire: `results` are looked at one by one, later. */
const Envelope = ResultsRequest.extend({ results: z.array(z.unknown()) })

/** The call by which agents deliver. */
export function resultsOperation(parts: ResultsOperationParts): DefinedAgentOperation {
  const { database, metrics, retentionMs, onRecorded } = parts
  const warn = createRepeatedLog(parts.log)
  return defineAgentOperation({
    summary: 'Deliver results',
    description:
      'Idempotent by (monitor, slot): the first real result stays, and any replaces a slot that was filled in as missed, such as those of `dropped`. Each result is checked alone.',
    method: 'post',
    path: '/agent/v1/results',
    kind: 'results',
    body: {
      contentType: 'application/json',
      schema: ResultsRequest,
      bytesMax: batchBytesMax,
      description: `At most ${batchBytesMax} bytes, ${batchUnpackedBytesMax} unpacked; Content-Encoding gzip is welcome.`,
    },
    answers: { schema: ResultsAnswer, description: 'What became of the batch' },
    errors: {
      413: 'The batch is too large, packed or unpacked, or has too many results',
    },
    async answer({ c, key, receivedAt }) {
      const { agentId, results, dropped = [] } = await readBatch(c)
      const from = { key, agentId, nowMs: receivedAt, retentionMs }
      const answer = await recordResults(database, { ...from, results, onRecorded })
      await recordDropped(database, { ...from, dropped })
      metrics.answered(answer)
      for (const [code, some] of Map.groupBy(answer.refused, (one) => one.code)) {
        const facts = { locationId: key.locationId, agentId, code, message: some[0]?.message ?? '' }
        const kind = `${key.locationId} ${agentId} ${code}`
        warn(kind, facts, 'results were refused', some.length)
      }
      return JSON.stringify(answer)
    },
  })
}

/** A batch as it was sent. Throws ApiError. */
async function readBatch(c: Context): Promise<z.infer<typeof Envelope>> {
  const request = Envelope.safeParse(parse(await readJsonBytes(c, BODY_BOUNDS)))
  if (!request.success) throw new ApiError(400, 'The body must have an agentId and results')
  if (request.data.results.length > resultsPerBatchMax) {
    throw new ApiError(413, `A batch must have at most ${resultsPerBatchMax} results`)
  }
  return { ...request.data, agentId: request.data.agentId.toLowerCase() }
}

function parse(bytes: Buffer): unknown {
  try {
    // Bytes that are not UTF-8 become U+FFFD: they affect only their own text.
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    throw new ApiError(400, 'The body is not JSON')
  }
}
