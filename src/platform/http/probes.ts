// What load balancers and orchestrators ask a platform, at every stage of its life; and its metrics, on another port.
import { type Context, Hono } from 'hono'
import { answerError, ApiError } from './errors.ts'

export type Phase = 'starting' | 'running' | 'draining'

/** Data of the endpoints; read again for every request. */
export interface ProbeSources {
  phase(): Phase
  /** What the start is waiting for, as text. */
  waitingFor(): string
  /** Why the database cannot be used; undefined when it can. Never rejects. */
  databaseProblem(): Promise<string | undefined>
  /** Facts for `/health`. */
  facts(): Record<string, unknown>
}

/** Time for which an answer of the database is cached, so that probes cause no load. */
const FRESH_MS = 500
const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** Whether a request's URL is one of these endpoints. */
export function isProbe(url: string): boolean {
  return PROBE.test(url)
}

const PROBE = /^https?:\/\/[^/]*\/(?:-\/(?:liveness|readiness)|health)(?:\?|$)/

/**
 * Makes the endpoints: `/-/liveness` (200 as long as requests are answered), `/-/readiness` (503 with
 * reasons while starting, draining or without the database), `/health` (always 200).
 */
export function createProbes(sources: ProbeSources): Hono {
  const app = new Hono()
  const databaseProblem = remembered(() => sources.databaseProblem())
  app.get('/-/liveness', (c) => c.json({ status: 'alive', reasons: [] }))
  app.get('/-/readiness', async (c) => {
    const reasons = await unreadyReasons(sources, databaseProblem)
    const ready = reasons.length === 0
    return c.json({ status: ready ? 'ready' : 'not ready', reasons }, ready ? 200 : 503)
  })
  app.get('/health', (c) => c.json({ status: sources.phase(), ...sources.facts() }))
  app.notFound(refuseMethod)
  return app
}

/** Makes the app that serves `/metrics` in Prometheus text format. */
export function createMetricsApp(metrics: () => Promise<string>): Hono {
  return new Hono()
    .get('/metrics', async (c) => c.body(await metrics(), 200, { 'content-type': METRICS_TYPE }))
    .all('/metrics', refuseMethod)
}

/** All of these endpoints are only read. */
function refuseMethod(c: Context): Response {
  const error = new ApiError(405, `${c.req.method} is not one of GET, HEAD`)
  return answerError(error, { Allow: 'GET, HEAD' })
}

async function unreadyReasons(
  sources: ProbeSources,
  databaseProblem: () => Promise<string | undefined>,
): Promise<string[]> {
  const phase = sources.phase()
  if (phase === 'draining') return ['the platform is stopping']
  if (phase === 'starting') return [sources.waitingFor()]
  const reason = await databaseProblem()
  // The signal may have come while the database was asked.
  if (sources.phase() === 'draining') return ['the platform is stopping']
  return reason === undefined ? [] : [reason]
}

function remembered<T>(ask: () => Promise<T>): () => Promise<T> {
  let last: Promise<T> | undefined
  let until = 0
  return () => {
    if (last !== undefined && performance.now() < until) return last
    until = Number.POSITIVE_INFINITY
    last = ask().finally(() => {
      until = performance.now() + FRESH_MS
    })
    return last
  }
}
