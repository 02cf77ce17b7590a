// A fake platform on loopback: it delays syncs, assigns monitors, accepts results and files, or misbehaves.
import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { gunzipSync } from 'node:zlib'
import type * as z from 'zod'
import {
  PresenceRequest,
  type SyncAnswer,
  type SyncRequest,
  type WireResult,
} from '../../../src/contract/protocol/agent-protocol.ts'
import { eventually } from '../eventually.ts'
import type { KeyPair } from '../network/certificates.ts'
import { startHttpServer, startHttpsServer } from '../test-server.ts'

/** A sync answer without its times. */
export type FakeAnswer = Omit<SyncAnswer, 'receivedAt' | 'sentAt'>

/** Answers in the platform's place; false leaves the call to it. */
export type Misbehaviour = (
  request: IncomingMessage,
  response: ServerResponse,
  said: SyncRequest | undefined,
) => boolean

/** A received batch of results. */
export interface ReceivedBatch {
  results: WireResult[]
  agentId: string
  packed: boolean
}

/** A received file. */
export interface ReceivedArtifact {
  path: string
  bytes: number
  sha256: string
  headers: IncomingMessage['headers']
}

/** An answer: a status with a body, or an action on the connection. */
export interface Reply {
  status?: number
  body?: string
  headers?: Record<string, string>
  /** Cut the connection instead. */
  cut?: 'before'
  /** Answer when this resolves. */
  after?: Promise<unknown>
}

/** The answer to an accepted batch. */
export function recorded(batch: ReceivedBatch, refused: object[] = []): Reply {
  const count = batch.results.length - refused.length
  return { status: 200, body: JSON.stringify({ recorded: count, known: 0, refused }) }
}

/** An error in the platform's format. */
export function refusal(statusCode: number, headers: Record<string, string> = {}): Reply {
  const body = JSON.stringify({ statusCode, error: 'x', message: `no: ${statusCode}` })
  return { status: statusCode, body, headers }
}

/** A started one. */
export type FakePlatform = Awaited<ReturnType<typeof startFakePlatform>>

type PresenceSaid = z.infer<typeof PresenceRequest>

/** An accepted key; any key is. */
export const FAKE_KEY = 'pl_0123456789abcdef'

/** The whole answer of a platform without any monitors. */
export const NOTHING: FakeAnswer = {
  location: { id: '11111111-1111-4111-8111-111111111111', slugName: 'office', proxyUrl: null },
  revision: '1.1',
  changes: { whole: true, set: [], drop: [], variables: [] },
  runs: [],
  cancel: [],
  settings: { fullPassedEveryMs: 3_600_000, artifactBytesMax: 1_000_000 },
  peers: 0,
}

/** Starts it, on loopback unless another address of this machine is named. */
export async function startFakePlatform(tls?: KeyPair, host?: string) {
  let current = NOTHING
  let misbehaviour: Misbehaviour | undefined
  const syncs: SyncRequest[] = []
  const presences: PresenceSaid[] = []
  const waitingSyncs = new Set<() => void>()
  const found = <T>(all: T[], fits: (one: T) => boolean): Promise<T> =>
    eventually(() => all.find(fits), { everyMs: 5 })

  const answerSync = (said: SyncRequest, response: ServerResponse, receivedAt: number) => {
    const send = () => {
      clearTimeout(timer)
      waitingSyncs.delete(send)
      const isNews = said.have !== current.revision
      const changes = isNews ? current.changes : null
      json(response, { ...current, changes, receivedAt, sentAt: Date.now() + platform.aheadMs })
    }
    const isNews =
      said.have !== current.revision ||
      current.runs.some(({ run }) => !said.runs.some((one) => one.run === run)) ||
      current.cancel.length > 0
    const timer = setTimeout(send, isNews ? 0 : said.waitMs)
    waitingSyncs.add(send)
    response.on('close', () => {
      clearTimeout(timer)
      waitingSyncs.delete(send)
    })
  }

  const onRequest = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const receivedAt = Date.now() + platform.aheadMs
    if (request.url?.endsWith('/envelope/') === true) {
      const key = request.headers.authorization ?? ''
      platform.envelopes.push({ path: request.url, key, text: String(await bytesIn(request)) })
      return json(response, {})
    }
    if (request.url?.includes('/agent/v1/artifacts/') === true) {
      const bytes = await bytesIn(request)
      if (bytes === undefined) return
      const sha256 = createHash('sha256').update(bytes).digest('hex')
      const { url: path = '', headers } = request
      platform.artifacts.push({ path, bytes: bytes.length, sha256, headers })
      return sendReply(response, platform.replyToArtifact())
    }
    const body = await jsonIn(request)
    if (body === undefined) return
    const isSync = request.url?.endsWith('/agent/v1/sync') === true
    const isPresence = request.url?.endsWith('/agent/v1/presence') === true
    if (isSync) syncs.push(body as SyncRequest)
    if (isPresence) presences.push(PresenceRequest.parse(body))
    if (misbehaviour?.(request, response, isSync ? (body as SyncRequest) : undefined) === true)
      return
    if (isSync) return answerSync(body as SyncRequest, response, receivedAt)
    if (isPresence) return json(response, { live: true })
    const packed = request.headers['content-encoding'] === 'gzip'
    await answerBatch({ ...(body as ReceivedBatch), packed }, response)
  }

  const answerBatch = async (batch: ReceivedBatch, response: ServerResponse): Promise<void> => {
    platform.batches.push(batch)
    platform.results.push(...batch.results)
    const reply = platform.reply(batch)
    await reply.after
    for (const { monitorId, slot } of reply.status === 200 ? batch.results : []) {
      const key = `${monitorId} ${slot}`
      platform.has.set(key, (platform.has.get(key) ?? 0) + 1)
    }
    sendReply(response, reply)
  }
  const listener = (request: IncomingMessage, response: ServerResponse) =>
    void onRequest(request, response)
  const server = await (tls === undefined
    ? startHttpServer(listener, host)
    : startHttpsServer(tls, listener, host))
  const platform = Object.assign(server, {
    url: `http${tls === undefined ? '' : 's'}://${server.authority}`,
    syncs,
    results: [] as WireResult[],
    batches: [] as ReceivedBatch[],
    /** Its answers to batches and files; can be replaced at any time. */
    reply: recorded,
    replyToArtifact: (): Reply => ({ status: 201, body: '{}' }),
    /** Every result of the batches that were answered 200, by monitor and slot. */
    has: new Map<string, number>(),
    artifacts: [] as ReceivedArtifact[],
    /** Presence requests of agents. */
    presences,
    /** Reports of faults: the path and key of each, and its bytes. */
    envelopes: [] as { path: string; key: string; text: string }[],
    /** Ahead of this machine's clock. */
    aheadMs: 0,
    /** Content of the next answers; a sync with this `revision` waits. */
    say(changes: Partial<FakeAnswer>): void {
      current = { ...current, ...changes }
      for (const send of waitingSyncs) send()
    },
    /** In place of the ordinary answers, from now on. */
    misbehave(how: Misbehaviour | undefined): void {
      misbehaviour = how
    },
    /** The first sync, past or future, that fits. */
    sync: (fits: (said: SyncRequest) => boolean): Promise<SyncRequest> => found(syncs, fits),
    result: (fits: (result: WireResult) => boolean): Promise<WireResult> =>
      found(platform.results, fits),
    presence: (fits: (said: PresenceSaid) => boolean) => found(presences, fits),
  })
  return platform
}

/** Sends JSON. */
export function json(response: ServerResponse, value: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}

function sendReply(
  response: ServerResponse,
  { status = 200, body = '', headers, cut }: Reply,
): void {
  if (cut === 'before') response.destroy()
  else response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body)
}

/** Undefined when the client aborts the request. */
async function bytesIn(request: IncomingMessage): Promise<Buffer | undefined> {
  const body = await buffer(request).catch(() => undefined)
  const isPacked = request.headers['content-encoding'] === 'gzip'
  return body !== undefined && isPacked ? gunzipSync(body) : body
}

async function jsonIn(request: IncomingMessage): Promise<unknown> {
  const body = await bytesIn(request)
  return body === undefined ? undefined : (JSON.parse(body.toString()) as unknown)
}
