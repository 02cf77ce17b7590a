// The agent's probe endpoints and its metrics, over HTTP. They answer from the start to the exit.
import { Hono } from 'hono'

/** The phases of an agent. */
export type Phase = 'starting' | 'running' | 'draining'

/** What the endpoints report; read for every request. */
export interface HealthSources {
  phase(): Phase
  /** Whether there have ever been monitors to run. */
  hasMonitors(): boolean
  /** Why the newest monitors could not be used, while those before them run. */
  refused(): string | undefined
  /** Why the source of monitors says that the agent is not ready. */
  unready(): string | undefined
  /** What else is wrong while the agent goes on. */
  warnings(): string[]
  /** Since the timetable last looked. Milliseconds. */
  tickAgeMs(): number
  /** Facts for `/health`. */
  facts(): Record<string, unknown>
  /** Prometheus text format, in pieces. */
  metrics(): AsyncGenerator<string, void, undefined>
}

/** Older than this, the timetable or the event loop hangs. */
export const TICK_AGE_MS_MAX = 30_000

/**
 * Creates the endpoints: `/-/readiness` (503 while starting, draining, hanging or without monitors), `/-/liveness`
 * (503 when the timetable hangs), `/health` (always 200) and `/metrics`. Refused monitors do not make an agent
 * unready, since it continues with those before; readiness warns of them.
 */
export function createHealth(sources: HealthSources): Hono {
  const app = new Hono()
  app.get('/-/readiness', (c) => {
    const reasons = unreadyReasons(sources)
    const refused = sources.refused()
    const warnings = refused === undefined ? [] : [`new monitors were refused: ${refused}`]
    warnings.push(...sources.warnings())
    const ready = reasons.length === 0
    return c.json({ status: ready ? 'ready' : 'not ready', reasons, warnings }, ready ? 200 : 503)
  })
  app.get('/-/liveness', (c) => {
    const reasons = hangReasons(sources)
    const alive = reasons.length === 0
    return c.json({ status: alive ? 'alive' : 'stuck', reasons }, alive ? 200 : 503)
  })
  app.get('/health', (c) => c.json({ status: sources.phase(), ...sources.facts() }))
  app.get('/metrics', () => {
    const headers = { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' }
    const pieces = ReadableStream.from(sources.metrics())
    return new Response(pieces.pipeThrough(new TextEncoderStream()), { headers })
  })
  app.notFound((c) =>
    PATHS.includes(c.req.path)
      ? c.json({ error: `${c.req.method} is not GET or HEAD` }, 405, { Allow: 'GET, HEAD' })
      : c.json({ error: `unknown path ${c.req.path}`, paths: PATHS }, 404),
  )
  app.onError((error, c) => c.json({ error: error.message }, 500))
  return app
}

const PATHS = ['/-/readiness', '/-/liveness', '/health', '/metrics']

function hangReasons(sources: HealthSources): string[] {
  const ageMs = sources.tickAgeMs()
  if (ageMs <= TICK_AGE_MS_MAX) return []
  return [`the timetable has not run for ${Math.round(ageMs / 1000)} s`]
}

function unreadyReasons(sources: HealthSources): string[] {
  if (sources.phase() === 'draining') return ['the agent is stopping']
  const unready = sources.unready()
  const hang = [...hangReasons(sources), ...(unready === undefined ? [] : [unready])]
  if (hang.length > 0 || sources.hasMonitors()) return hang
  const refused = sources.refused()
  const why = refused === undefined ? 'there are no monitors yet' : `no monitors: ${refused}`
  return [why]
}

/** The layers of the sandbox; for one version also under their earlier name. */
export function sandboxFacts(layers: object | undefined): Record<string, object | undefined> {
  return { sandbox: layers, cage: layers }
}
