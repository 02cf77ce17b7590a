// The calls of `vedette run` and `vedette cancel`: find a monitor, start a run, follow it, cancel it.
import { setTimeout as sleep } from 'node:timers/promises'
import * as z from 'zod'
import { type Run, RUN_BOUNDS, RunDetail, RunsAsked, type RunState } from '../contract/api/run.ts'
import type { ShownProgress } from '../contract/protocol/run-progress.ts'
import type { ApplyTarget } from './config.ts'
import { LinkError } from '../agent/platform/link-error.ts'
import { callPublicApi, type PublicAnswer, type PublicCall } from './public-call.ts'

/** Why a call failed, in a sentence for people. */
export class PlatformRunError extends Error {
  /** `refused`: a retry of the same request cannot work. */
  readonly code: 'refused' | 'unreachable'

  constructor(code: 'refused' | 'unreachable', message: string) {
    super(message)
    this.name = 'PlatformRunError'
    this.code = code
  }
}

const CALL_MS = 30_000
/** A started run is not abandoned: a stop cancels it by a call of its own. */
const NEVER = new AbortController().signal
const AGAIN_MS = 1_000
/** How long a platform may be unreachable while a run is followed. */
const AWAY_MS_MAX = 120_000
const GUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** Monitors of one name, or a similar one, that a message lists. */
const ALIKE_MAX = 20
const NEAR_MAX = 10

const Found = z.array(z.object({ id: z.guid(), name: z.string() }))

interface Ask<T extends z.ZodType> {
  method: 'GET' | 'POST'
  path: string
  body?: object
  schema: T
}

/** Calls of the public API about runs. All of them reject with PlatformRunError. */
export class PlatformRuns {
  readonly #target: ApplyTarget

  constructor(target: ApplyTarget) {
    this.#target = target
  }

  /** Finds the id of a monitor by its id or exact name. */
  async findMonitor(named: string): Promise<string> {
    if (GUID.test(named)) return named.toLowerCase()
    const listed = await this.#list({ name: named, limit: String(ALIKE_MAX) })
    // A platform that ignores the filter returns other monitors.
    const alike = listed.filter(({ name }) => name === named)
    const [one, other] = alike
    if (one === undefined) {
      const near = await this.#list({ search: named, limit: String(NEAR_MAX) })
      const names = near.map(({ name }) => `“${name}”`).join(', ')
      const fix = names === '' ? '' : `; there are ${names}`
      throw new PlatformRunError('refused', `no monitor is called “${named}”${fix}`)
    }
    if (other === undefined) return one.id
    const ids = alike.map(({ id }) => id).join(', ')
    const message = `several monitors are called “${named}”; name one by its id: ${ids}`
    throw new PlatformRunError('refused', message)
  }

  #list(query: Record<string, string>): Promise<z.output<typeof Found>> {
    const path = `/v1/checks?${new URLSearchParams(query).toString()}`
    return this.#ask({ method: 'GET', path, schema: Found })
  }

  /** Starts a run in each of the locations, or in all of the monitor's. */
  async ask(monitorId: string, locations: readonly string[] | undefined): Promise<Run[]> {
    const path = `/v1/checks/${monitorId}/runs`
    const body = locations === undefined ? {} : { locations }
    return (await this.#ask({ method: 'POST', path, body, schema: RunsAsked })).runs
  }

  /** Cancels a run; resolves with its state. */
  cancel(runId: string): Promise<RunDetail> {
    const path = `/v1/runs/${encodeURIComponent(runId)}/cancel`
    return this.#ask({ method: 'POST', path, schema: RunDetail })
  }

  /** A run as it is now. */
  read({ id, checkId }: Pick<Run, 'id' | 'checkId'>): Promise<RunDetail> {
    return this.#ask({
      method: 'GET',
      path: `/v1/checks/${checkId}/runs/${id}`,
      schema: RunDetail,
    })
  }

  /** Follows a run to its end; reports states and progress. Tolerates an unreachable platform for a while. */
  async follow(
    run: Run,
    onState: (state: RunState) => void,
    onProgress: (progress: ShownProgress) => void = () => undefined,
  ): Promise<RunDetail> {
    let state = run.state
    let progressAt = 'none'
    let away: number | undefined
    for (;;) {
      const known = `knownState=${state}&knownProgress=${encodeURIComponent(progressAt)}`
      const query = `waitMs=${RUN_BOUNDS.waitMsMax - 5_000}&${known}`
      const path = `/v1/checks/${run.checkId}/runs/${run.id}?${query}`
      const begin = performance.now()
      try {
        const now = await this.#ask({ method: 'GET', path, schema: RunDetail })
        away = undefined
        const saidAt = now.progress?.at ?? 'none'
        const isNews = now.state !== state || saidAt !== progressAt
        if (now.state !== state) onState(now.state)
        if (now.progress !== null && saidAt !== progressAt) onProgress(now.progress)
        state = now.state
        progressAt = saidAt
        if (state === 'finished') return now
        // A platform that is stopping answers at once; the next request must wait.
        if (!isNews && performance.now() - begin < AGAIN_MS) await sleep(AGAIN_MS)
      } catch (error) {
        if (!(error instanceof PlatformRunError) || error.code === 'refused') throw error
        away ??= performance.now()
        if (performance.now() - away > AWAY_MS_MAX) throw error
        await sleep(AGAIN_MS)
      }
    }
  }

  async #ask<T extends z.ZodType>({ method, path, body, schema }: Ask<T>): Promise<z.output<T>> {
    const { status, json, said } = await this.#call({
      method,
      path,
      ...(body && { body: Buffer.from(JSON.stringify(body)) }),
    })
    if (status !== 200 && status !== 201) throw refusal(status, said)
    const parsed = schema.safeParse(json)
    if (parsed.success) return parsed.data
    const { platformUrl } = this.#target
    throw new PlatformRunError('refused', `${platformUrl} answers, but not as a platform does`)
  }

  async #call(call: Pick<PublicCall, 'method' | 'path' | 'body'>): Promise<PublicAnswer> {
    try {
      return await callPublicApi(this.#target, { ...call, deadlineMs: CALL_MS, signal: NEVER })
    } catch (error) {
      if (!(error instanceof LinkError)) throw error
      throw new PlatformRunError('unreachable', error.message)
    }
  }
}

const FIXES: Record<number, string> = {
  401: 'check VEDETTE_API_KEY and ACCOUNT_ID',
  403: 'use a key that may run monitors',
}

function refusal(status: number, said: string): PlatformRunError {
  const refused = status >= 400 && status < 500 && status !== 408 && status !== 429
  const sentence = said === '' ? `the platform answered ${status}` : `${said} (${status})`
  const fix = FIXES[status] === undefined ? '' : `; ${FIXES[status]}`
  return new PlatformRunError(refused ? 'refused' : 'unreachable', `${sentence}${fix}`)
}
