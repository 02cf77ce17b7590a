// Artifacts in a bucket of an S3-compatible service, addressed by path. Each is one PUT, streamed, whose
// signature covers the SHA-256 that the agent announced: the service checks it once more.
import { Agent as HttpAgent, type IncomingMessage, request as requestHttp } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import { AwsV4Signer } from 'aws4fetch'
import { type ArtifactStore, ArtifactStoreError } from './store.ts'

/** Where a bucket is, and who we are there. */
export interface BucketOptions {
  /** The service, like `https://s3.eu-central-1.amazonaws.com`. */
  url: string
  bucket: string
  region: string
  accessKeyId: string
  secretAccessKey: string
}

/** A request fails after this time without data from the service. */
const IDLE_TIMEOUT_MS = 30_000
const SOCKETS_MAX = 64
const COMPLAINT_BYTES_MAX = 4096
/** SHA-256 of nothing, the payload of requests without a body. */
const NOTHING = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'

interface Send {
  method: 'PUT' | 'GET' | 'DELETE'
  key: string
  headers?: Record<string, string>
  body?: AsyncIterable<Uint8Array>
}

/** Stores artifacts in an existing bucket, whose lifecycle rule removes leftovers of past days. */
export function createArtifactBucket({ url, bucket, ...identity }: BucketOptions): ArtifactStore {
  const isSecure = new URL(url).protocol === 'https:'
  const sockets = { keepAlive: true, maxSockets: SOCKETS_MAX }
  const agent = isSecure ? new HttpsAgent(sockets) : new HttpAgent(sockets)
  const begin = isSecure ? requestHttps : requestHttp

  /** Sends a signed request; resolves with an answer that is good, or 404 where nothing was sent. */
  const send = async ({ method, key, headers = {}, body }: Send): Promise<IncomingMessage> => {
    const signed = await new AwsV4Signer({
      ...identity,
      method,
      url: `${url.replace(/\/+$/, '')}/${bucket}/${key}`,
      headers: { 'x-amz-content-sha256': NOTHING, ...headers },
      service: 's3',
    }).sign()
    const request = begin(signed.url, {
      method,
      headers: Object.fromEntries(signed.headers),
      agent,
    })
    request.setTimeout(IDLE_TIMEOUT_MS, () => request.destroy(new Error('it does not answer')))
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      request.once('response', resolve)
      request.once('error', reject)
      request.once('close', () => reject(new Error('the connection was closed')))
    })
    answered.catch(() => undefined)
    if (body === undefined) request.end()
    else await upload(body, request, answered)
    const answer = await answered.catch((error: unknown) => {
      throw new ArtifactStoreError(`the bucket: ${(error as Error).message}`, { cause: error })
    })
    const { statusCode = 0 } = answer
    const isGood = statusCode < 300 || (statusCode === 404 && method !== 'PUT')
    if (!isGood) throw await complaint(answer)
    if (!request.writableFinished) {
      answer.destroy()
      throw new ArtifactStoreError(
        'the bucket: it answered before it had received the complete file',
      )
    }
    return answer
  }

  return {
    needsLength: true,
    async put(key, body, { bytes, sha256, contentType }) {
      const headers = {
        'content-type': contentType,
        'content-length': String(bytes ?? 0),
        'x-amz-content-sha256': sha256.toString('hex'),
      }
      const answer = await send({ method: 'PUT', key, headers, body })
      answer.resume()
    },
    async get(key, range) {
      const headers = range && { range: `bytes=${range.first}-${range.last}` }
      const answer = await send({ method: 'GET', key, ...(headers && { headers }) })
      if (answer.statusCode !== 404) return answer
      answer.resume()
      return undefined
    },
    async remove(key) {
      const answer = await send({ method: 'DELETE', key })
      answer.resume()
    },
    async dropBefore() {},
  }
}

/** Resolves when all is sent or an answer came before; rejects with what `body` throws. */
async function upload(
  body: AsyncIterable<Uint8Array>,
  request: ReturnType<typeof requestHttp>,
  answered: Promise<IncomingMessage>,
): Promise<void> {
  // The answer, or a missing one, reports why sending ended.
  let isOver = false
  let goOn = () => {}
  const end = () => {
    isOver = true
    goOn()
  }
  answered.then(end, end)
  try {
    for await (const bytes of body) {
      // The next piece may be requested only after this one is written, since its memory is reused.
      await new Promise<void>((resolve) => {
        goOn = resolve
        if (isOver || request.destroyed) resolve()
        else request.write(bytes, () => resolve())
      })
      if (isOver || request.destroyed) return
    }
    request.end()
  } catch (error) {
    request.destroy()
    throw error
  }
}

async function complaint(answer: IncomingMessage): Promise<ArtifactStoreError> {
  let text = ''
  try {
    for await (const chunk of answer) {
      text += String(chunk)
      if (text.length > COMPLAINT_BYTES_MAX) break
    }
  } catch {
    // The status says enough.
  }
  answer.destroy()
  const code = /<Code>([A-Za-z0-9]{1,64})<\/Code>/.exec(text)?.[1]
  const said = code === undefined ? '' : ` ${code}`
  return new ArtifactStoreError(`the bucket: it answered ${answer.statusCode}${said}`)
}
