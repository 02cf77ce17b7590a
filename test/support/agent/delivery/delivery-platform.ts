// A platform for tests of delivery: receives batches over real HTTP, with configurable answers.
import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { gunzipSync } from 'node:zlib'
import type { WireResult } from '../../../../src/contract/protocol/agent-protocol.ts'
import { createPlatformLink } from '../../../../src/agent/platform/link.ts'
import { startHttpServer } from '../../test-server.ts'

/** A received batch. */
export interface ReceivedBatch {
  results: WireResult[]
  agentId: string
  packed: boolean
}

/** An answer: a status with a body, or an action on the connection. */
export interface Reply {
  status?: number
  body?: string
  headers?: Record<string, string>
  /** Cut the connection instead. */
  cut?: 'before' | 'within'
  /** Answer when this resolves. */
  after?: Promise<unknown>
}

/** The answer to an accepted batch. */
export function recorded(batch: ReceivedBatch, refused: object[] = []): Reply {
  const count = batch.results.length - refused.length
  return { status: 200, body: JSON.stringify({ recorded: count, known: 0, refused }) }
}

/** An error in the platform's format. */
export function refusal(statusCode: number, headers?: Record<string, string>): Reply {
  const body = JSON.stringify({ statusCode, error: 'x', message: `no: ${statusCode}` })
  return { status: statusCode, body, ...(headers === undefined ? {} : { headers }) }
}

/** A received artifact. */
export interface ReceivedArtifact {
  path: string
  bytes: number
  sha256: string
  headers: IncomingMessage['headers']
}

/** Starts the platform. `reply` can be replaced at any time. */
export async function startDeliveryPlatform() {
  const batches: ReceivedBatch[] = []
  const artifacts: ReceivedArtifact[] = []
  const state = {
    batches,
    artifacts,
    reply: (batch: ReceivedBatch): Reply => recorded(batch),
    replyToArtifact: (_artifact: ReceivedArtifact): Reply => ({ status: 201, body: '{}' }),
    /** Every result of the batches that were answered 200, by monitor and slot. */
    has: new Map<string, number>(),
  }
  const server = await startHttpServer((request, response) => {
    const answered = request.method === 'PUT' ? onArtifact(request) : onBatch(request)
    answered.then(
      (reply) => send(response, reply),
      () => response.destroy(),
    )
  })

  async function onBatch(request: IncomingMessage): Promise<Reply> {
    const body = await buffer(request)
    const packed = request.headers['content-encoding'] === 'gzip'
    const text = (packed ? gunzipSync(body) : body).toString()
    const { results, agentId } = JSON.parse(text) as { results: WireResult[]; agentId: string }
    const batch = { results, agentId, packed }
    batches.push(batch)
    const reply = state.reply(batch)
    await reply.after
    if (reply.status === 200 && reply.cut === undefined) {
      for (const { monitorId, slot } of results) {
        const key = `${monitorId} ${slot}`
        state.has.set(key, (state.has.get(key) ?? 0) + 1)
      }
    }
    return reply
  }

  async function onArtifact(request: IncomingMessage): Promise<Reply> {
    const hash = createHash('sha256')
    let bytes = 0
    await pipeline(request, async (chunks: AsyncIterable<Buffer>) => {
      for await (const chunk of chunks) {
        hash.update(chunk)
        bytes += chunk.length
      }
    })
    const { headers, url = '' } = request
    const artifact = { path: url, bytes, sha256: hash.digest('hex'), headers }
    artifacts.push(artifact)
    const reply = state.replyToArtifact(artifact)
    await reply.after
    return reply
  }
  const link = createPlatformLink({ platformUrl: `http://${server.authority}`, apiKey: 'pl_any' })
  const close = async () => {
    link.close()
    await server.close()
  }
  return Object.assign(state, { link, close })
}

function send(response: ServerResponse, reply: Reply): void {
  const { status = 200, body = '', headers = {}, cut } = reply
  if (cut === 'before') {
    response.destroy()
    return
  }
  response.writeHead(status, { 'content-type': 'application/json', ...headers })
  if (cut === undefined) response.end(body)
  else response.write(body.slice(0, 5), () => response.destroy())
}
