// GET, POST and HEAD /ping/<token>: what jobs report. Pings that arrive together are recorded in one transaction, and
// each is answered once that is committed.
import { OpenAPIHono } from '@hono/zod-openapi'
import type { Database } from '../../database/database.ts'
import type { OnRecorded } from '../results/recorded.ts'
import { answerFaults, type FaultParts } from '../http/answer-faults.ts'
import { ApiError, notFound } from '../http/errors.ts'
import { type PingOutcome, receivePing } from './heartbeat.ts'
import { lockPinged } from './queries/heartbeats.ts'
import { tokenHash } from './queries/watch.ts'
import { type Moved, type PingSource, recordMoves, type SourcedEvent } from './recording.ts'

export const PING_BOUNDS = {
  bodyBytesMax: 10 * 1024,
  bodyMs: 10_000,
  userAgentCharactersMax: 255,
  /** Of one address, a minute, in each process. */
  perMinuteMax: 120,
  /** Addresses whose pings are counted. */
  countedMax: 100_000,
  /** Pings of one transaction, and pings that wait for theirs. */
  atOnceMax: 500,
  waitingMax: 20_000,
} as const

export interface PingParts {
  database: Database
  /** Milliseconds on the platform's clock. */
  now: () => number
  onRecorded: readonly OnRecorded[]
}

const PING = /^https?:\/\/[^/]*\/ping\//
const GUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
const METHODS = ['GET', 'POST', 'HEAD']

/** Whether a request's URL is one of this app's. */
export function isPing(url: string): boolean {
  return PING.test(url)
}

/** The app that receives pings. The token in the address is all that a job needs. */
export function createPingApp(parts: PingParts, faults: FaultParts): OpenAPIHono {
  const app = new OpenAPIHono()
  const queue = new PingQueue(parts)
  const rates = new PingRates()
  app.all('/ping/:token/:outcome?', async (c) => {
    if (!METHODS.includes(c.req.method))
      throw new ApiError(405, 'A ping is GET, POST or HEAD', {
        headers: { Allow: METHODS.join(', ') },
      })
    const { token, outcome: word } = c.req.param()
    const outcome = outcomeOf(word)
    if (!GUID.test(token)) throw notFound('heartbeat')
    const hash = tokenHash(token)
    rates.take(hash)
    const agent = c.req.header('user-agent') ?? null
    const body = c.req.method === 'POST' ? await bodyText(c.req.raw) : null
    const source = {
      source: `HTTP ${c.req.method}`,
      userAgent: agent && withoutToken(agent, token).slice(0, PING_BOUNDS.userAgentCharactersMax),
      body: body && withoutToken(body, token),
    }
    await queue.add({ hash, outcome, atMs: Math.floor(parts.now()), source })
    return c.text('OK\n')
  })
  answerFaults(app, faults)
  return app
}

function outcomeOf(word: string | undefined): PingOutcome {
  if (word === undefined || word === '') return { exitCode: 0 }
  if (word === 'start') return 'start'
  if (word === 'fail') return { exitCode: null }
  if (/^\d{1,3}$/.test(word) && Number(word) <= 255) return { exitCode: Number(word) }
  throw new ApiError(400, `${word} must be start, fail, or an exit code of 0 to 255`)
}

/** Fewer characters of a token, at the end of what was read, give nothing away. */
const TOKEN_PART_CHARS_MIN = 8

/** The token is a secret, and logs of jobs, which are sent as body, often contain the address. */
function withoutToken(text: string, token: string): string {
  // It is a GUID, which may be written in capitals.
  const clean = text.replaceAll(new RegExp(token, 'gi'), '[scrubbed]')
  for (let length = token.length - 1; length >= TOKEN_PART_CHARS_MIN; length--) {
    const end = clean.slice(-length)
    if (end.toLowerCase() === token.slice(0, length).toLowerCase()) return clean.slice(0, -length)
  }
  return clean
}

/** The beginning of a body as PostgreSQL can store it; the rest is not read. */
async function bodyText(request: Request): Promise<string | null> {
  if (request.body === null) return null
  const chunks: Uint8Array[] = []
  let bytes = 0
  const reader = request.body.getReader()
  const timer = setTimeout(() => void reader.cancel(), PING_BOUNDS.bodyMs)
  try {
    while (bytes < PING_BOUNDS.bodyBytesMax) {
      const { done, value } = await reader.read()
      if (done) break
      chunks.push(value)
      bytes += value.length
    }
  } finally {
    clearTimeout(timer)
    if (bytes >= PING_BOUNDS.bodyBytesMax) await reader.cancel()
  }
  if (bytes === 0) return null
  return Buffer.concat(chunks)
    .toString('utf8', 0, PING_BOUNDS.bodyBytesMax)
    .replaceAll('\0', '\uFFFD')
}

interface Ping {
  hash: string
  outcome: PingOutcome
  atMs: number
  source: PingSource
}

interface WaitingPing extends Ping {
  settle: PromiseWithResolvers<void>
}

/** Pings that wait for their transaction; one runs at a time, and takes all that came during the one before. */
class PingQueue {
  readonly #parts: PingParts
  readonly #waiting: WaitingPing[] = []
  #isRunning = false

  constructor(parts: PingParts) {
    this.#parts = parts
  }

  /** Resolves when the ping is committed. */
  add(ping: Ping): Promise<void> {
    if (this.#waiting.length >= PING_BOUNDS.waitingMax)
      throw new ApiError(503, 'Too many pings are queued', { headers: { 'Retry-After': '5' } })
    const settle = Promise.withResolvers<void>()
    this.#waiting.push({ ...ping, settle })
    if (!this.#isRunning) void this.#run()
    return settle.promise
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    while (this.#waiting.length > 0) {
      const pings = this.#waiting.splice(0, PING_BOUNDS.atOnceMax)
      try {
        const known = await recordPings(pings, this.#parts)
        for (const { hash, settle } of pings)
          if (known.has(hash)) settle.resolve()
          else settle.reject(notFound('heartbeat'))
      } catch (error) {
        for (const { settle } of pings) settle.reject(error)
      }
    }
    this.#isRunning = false
  }
}

/** Records pings in the order given; returns the hashes of known tokens. */
async function recordPings(
  pings: readonly Ping[],
  { database, now, onRecorded }: PingParts,
): Promise<ReadonlySet<string>> {
  const hashes = [...new Set(pings.map(({ hash }) => hash))]
  return database.transaction(async (tx) => {
    const rows = await lockPinged(tx, hashes)
    const moves = new Map<string, Moved & { events: SourcedEvent[] }>()
    for (const { hash, outcome, atMs, source } of pings) {
      const row = rows.get(hash)
      if (row === undefined) continue
      const move = moves.get(hash) ?? { row, state: row, events: [] }
      const step = receivePing(move.state, outcome, atMs)
      const last = outcome === 'start' ? -1 : step.events.length - 1
      for (const [at, event] of step.events.entries())
        move.events.push(at === last ? { ...event, ping: source } : event)
      moves.set(hash, { ...move, state: step.state })
    }
    await recordMoves(tx, [...moves.values()], { nowMs: Math.floor(now()), onRecorded })
    return new Set(rows.keys())
  })
}

/** Counts the pings of each address by the minute, so that one job that runs wild does not fill the database. */
class PingRates {
  readonly #counts = new Map<string, number>()
  #untilMs = 0

  /** Throws 429 when the address has been pinged too often. */
  take(hash: string): void {
    const nowMs = performance.now()
    if (nowMs >= this.#untilMs) {
      this.#counts.clear()
      this.#untilMs = nowMs + 60_000
    }
    const count = (this.#counts.get(hash) ?? 0) + 1
    if (count > PING_BOUNDS.perMinuteMax) {
      const seconds = String(Math.ceil((this.#untilMs - nowMs) / 1000))
      const message = `A heartbeat may be pinged ${PING_BOUNDS.perMinuteMax} times a minute`
      throw new ApiError(429, message, { headers: { 'Retry-After': seconds } })
    }
    if (count > 1 || this.#counts.size < PING_BOUNDS.countedMax) this.#counts.set(hash, count)
  }
}
