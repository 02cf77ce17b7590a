// A small service with the part of S3 that artifacts need. It checks each signature with an independent
// implementation of Signature Version 4 (AWS documentation, "Signature Version 4 signing process").
import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { rename, rm, stat } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { listening } from '../../test-server.ts'

/** A service that listens. */
export interface S3Server {
  url: string
  bucket: string
  region: string
  accessKeyId: string
  secretAccessKey: string
  /** Keys of the stored objects. */
  keys: () => string[]
  /** Answers every request with this status from now on. */
  failWith: (status: number | undefined) => void
  close: () => Promise<void>
}

const hex = (text: string | Buffer) => createHash('sha256').update(text).digest('hex')
const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest()

/** Starts a service with one bucket, stored in `folder`. */
export async function startS3Server(folder: string): Promise<S3Server> {
  const files = new Map<string, string>()
  const identity = {
    bucket: 'artifacts',
    region: 'eu-test-1',
    accessKeyId: 'AKIATEST',
    secretAccessKey: 'secret/of+the=test',
  }
  let failure: number | undefined
  let count = 0
  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy())
  })
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    if (failure !== undefined) return refuse(response, failure, 'SlowDown')
    const problem = signatureProblem(request, identity)
    if (problem !== undefined) return refuse(response, 403, problem)
    const key = decodeURIComponent(request.url ?? '')
    if (!key.startsWith(`/${identity.bucket}/`)) return refuse(response, 404, 'NoSuchBucket')
    const file = files.get(key)
    if (request.method === 'PUT') {
      const path = join(folder, String(count++))
      const code = await storeBody(request, path)
      if (code !== undefined) return refuse(response, 400, code)
      files.set(key, path)
      return response.end()
    }
    if (request.method === 'DELETE') {
      files.delete(key)
      if (file !== undefined) await rm(file)
      return response.writeHead(204).end()
    }
    if (file === undefined) return refuse(response, 404, 'NoSuchKey')
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? []
    const { size } = await stat(file)
    const [start, end] = [Number(first ?? 0), Number(last ?? size - 1)]
    response.writeHead(first === undefined ? 200 : 206, { 'content-length': end - start + 1 })
    if (size === 0) return response.end()
    await pipeline(createReadStream(file, { start, end }), response)
    return undefined
  }
  const started = await listening(server)
  return {
    ...identity,
    url: `http://${started.authority}`,
    keys: () => [...files.keys()],
    failWith: (status) => {
      failure = status
    },
    close: () => started.close(),
  }
}

function refuse(response: ServerResponse, status: number, code: string): void {
  response.writeHead(status, { connection: 'close' })
  response.end(`<?xml version="1.0"?><Error><Code>${code}</Code></Error>`)
}

/** Stores a body that matches its signature; otherwise returns the code of the error. */
async function storeBody(request: IncomingMessage, path: string): Promise<string | undefined> {
  if (request.headers['content-length'] === undefined) return 'MissingContentLength'
  const hash = createHash('sha256')
  const part = `${path}.part`
  try {
    request.on('data', (chunk: Buffer) => hash.update(chunk))
    await pipeline(request, createWriteStream(part))
  } catch {
    await rm(part, { force: true })
    return 'IncompleteBody'
  }
  if (hash.digest('hex') === request.headers['x-amz-content-sha256']) await rename(part, path)
  else {
    await rm(part)
    return 'XAmzContentSHA256Mismatch'
  }
  return undefined
}

const AUTHORIZATION =
  /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/

/** The error in the signature of a request. */
function signatureProblem(
  request: IncomingMessage,
  identity: { accessKeyId: string; secretAccessKey: string; region: string },
): string | undefined {
  const { headers } = request
  const [, id, day = '', region = '', signed = '', signature = ''] =
    AUTHORIZATION.exec(headers.authorization ?? '') ?? []
  if (id !== identity.accessKeyId) return 'InvalidAccessKeyId'
  if (region !== identity.region) return 'AuthorizationHeaderMalformed'
  const names = signed.split(';')
  const at = String(headers['x-amz-date'])
  const needed = ['host', 'x-amz-content-sha256', 'x-amz-date']
  if (!needed.every((name) => names.includes(name)) || !at.startsWith(day)) return 'AccessDenied'
  const [path = '', query = ''] = (request.url ?? '').split('?')
  const canonical = [
    request.method,
    path,
    query,
    ...names.map((name) => `${name}:${String(headers[name]).trim().replaceAll(/\s+/g, ' ')}`),
    '',
    signed,
    headers['x-amz-content-sha256'],
  ].join('\n')
  const scope = `${day}/${region}/s3/aws4_request`
  const text = ['AWS4-HMAC-SHA256', at, scope, hex(canonical)].join('\n')
  const key = [region, 's3', 'aws4_request'].reduce<Buffer>(
    (secret, part) => hmac(secret, part),
    hmac(`AWS4${identity.secretAccessKey}`, day),
  )
  const ours = Buffer.from(hmac(key, text).toString('hex'))
  return timingSafeEqual(ours, Buffer.from(signature)) ? undefined : 'SignatureDoesNotMatch'
}
