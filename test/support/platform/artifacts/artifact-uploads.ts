// The artifacts' call of the agents' API on a real port, with agents that upload files correctly and incorrectly.
import { createHash } from 'node:crypto'
import { type ClientRequest, request } from 'node:http'
import { Readable } from 'node:stream'
import { OpenAPIHono } from '@hono/zod-openapi'
import { mount } from '../../../../src/platform/http/operation.ts'
import { AgentRates } from '../../../../src/platform/http/rate-limit/agent-rates.ts'
import { answerFaults } from '../../../../src/platform/http/answer-faults.ts'
import { artifactOperation } from '../../../../src/platform/artifacts/intake.ts'
import type { ArtifactStore } from '../../../../src/platform/artifacts/store.ts'
import { createClientAddress } from '../../../../src/platform/http/client-address.ts'
import { windowsOf } from '../../../../src/platform/http/rate-limit/queries.ts'
import { createHttpServer } from '../../../../src/platform/http/http-server.ts'
import { createLocationAuth } from '../../../../src/platform/http/auth.ts'
import { RateLimiter } from '../../../../src/platform/http/rate-limit/rate-limit.ts'
import type { Database } from '../../../../src/database/database.ts'
import { collectingLog } from '../../collecting-log.ts'
import { listening } from '../../test-server.ts'

/** The call, listening. */
export interface ArtifactServer {
  port: number
  close(): Promise<void>
}

/** Starts it. */
export async function startArtifactServer(
  database: Database,
  store: ArtifactStore,
): Promise<ArtifactServer> {
  const app = new OpenAPIHono()
  const { auth } = createLocationAuth({
    database,
    limiter: new RateLimiter(windowsOf(database)),
    clientAddress: createClientAddress([]),
    rates: new AgentRates(),
  })
  const operations = [artifactOperation({ database, store, log: { warn: () => {} } })]
  mount(app, { auth, operations, now: Date.now })
  const { log, lines: faults } = collectingLog('error')
  answerFaults(app, { log, logOutage: () => {} })
  const server = await listening(createHttpServer(app.fetch as never))
  return {
    port: server.port,
    async close() {
      await server.close()
      if (faults.length > 0) throw new Error(`the app had faults: ${faults.join('')}`)
    },
  }
}

/** A file to upload. */
export interface Upload {
  port: number
  secret: string
  owner: string
  name: string
  body: Buffer | Readable
  /** null removes one. */
  headers?: Record<string, string | null>
}

/** The answer of the platform. */
export interface UploadAnswer {
  status: number
  // oxlint-disable-next-line typescript/no-explicit-any -- looked into only
  body: any
}

/** The digest header of some bytes. */
export function digestOf(bytes: Buffer): string {
  return `sha-256=:${createHash('sha256').update(bytes).digest('base64')}:`
}

/** Begins an upload: sends the head, leaves the body to the caller. */
export function beginUpload(upload: Omit<Upload, 'body'>): {
  outgoing: ClientRequest
  answer: Promise<UploadAnswer>
} {
  const { port, secret, owner, name } = upload
  const headers: Record<string, string> = {
    authorization: `Bearer ${secret}`,
    'user-agent': 'Vedette/8.4.0',
    'content-type': 'application/zip',
  }
  for (const [header, value] of Object.entries(upload.headers ?? {})) {
    if (value === null) delete headers[header]
    else headers[header] = value
  }
  const path = `/agent/v1/artifacts/${owner}/${encodeURIComponent(name)}`
  const outgoing = request({ port, host: '127.0.0.1', method: 'PUT', path, headers, agent: false })
  const answer = new Promise<UploadAnswer>((resolve, reject) => {
    outgoing.once('error', reject)
    outgoing.once('response', (incoming) => {
      let text = ''
      incoming.on('data', (chunk: Buffer) => {
        text += chunk.toString()
      })
      incoming.once('end', () => {
        resolve({ status: incoming.statusCode ?? 0, body: JSON.parse(text) })
      })
      incoming.once('error', reject)
    })
  })
  answer.catch(() => undefined)
  return { outgoing, answer }
}

/** Uploads a file. A Buffer is announced with its length and digest. */
export function bring(upload: Upload): Promise<UploadAnswer> {
  const { body, headers } = upload
  const announced = Buffer.isBuffer(body)
    ? { 'content-length': String(body.length), 'content-digest': digestOf(body) }
    : {}
  const { outgoing, answer } = beginUpload({ ...upload, headers: { ...announced, ...headers } })
  outgoing.on('error', () => undefined)
  if (Buffer.isBuffer(body)) outgoing.end(body)
  else body.pipe(outgoing)
  return answer
}

/** As many zeros, and their digest. */
export function zeros(bytes: number): { body: Readable; digest: string } {
  const block = Buffer.alloc(64 * 1024)
  const hash = createHash('sha256')
  const parts = function* () {
    for (let left = bytes; left > 0; left -= block.length) {
      yield block.subarray(0, Math.min(left, block.length))
    }
  }
  for (const part of parts()) hash.update(part)
  return { body: Readable.from(parts()), digest: `sha-256=:${hash.digest('base64')}:` }
}
