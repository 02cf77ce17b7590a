// Agents that upload files correctly and incorrectly.
import { createHash } from 'node:crypto'
import { type ClientRequest, request } from 'node:http'
import { Readable } from 'node:stream'
import { json } from 'node:stream/consumers'
import type { ApiAnswer, Loose } from '../api-document.ts'

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

type UploadAnswer = Pick<ApiAnswer<Loose>, 'status' | 'body'>

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
      const status = incoming.statusCode ?? 0
      json(incoming).then((body) => resolve({ status, body }), reject)
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
