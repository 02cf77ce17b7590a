// Calls of `vedette migrate` to the public API of a platform: reads whole lists and changes one field.
import * as z from 'zod'
import type { ApplyTarget } from '../../client/config.ts'
import { ApplyError, refusal } from '../../client/apply-call.ts'
import { LinkError } from '../../agent/platform/link-error.ts'
import { MigrationError, type Move } from './migration.ts'
import { callPublicApi, type PublicCall } from '../../client/public-call.ts'

const CALL_MS = 30_000
const PAGE = 100
/** Pages of one list. */
const PAGES_MAX = 1000

const Location = z.object({ slugName: z.string(), proxyUrl: z.string().nullable() })
const Changing = z.object({ runtimeId: z.string().nullable(), updated_at: z.string().nullable() })

/** Calls of the public API. All of them reject with MigrationError. */
export class MigrationApi {
  readonly #target: ApplyTarget
  readonly #signal: AbortSignal

  constructor(target: ApplyTarget, signal: AbortSignal) {
    this.#target = target
    this.#signal = signal
  }

  /** All entries of a listing. */
  async list<T extends z.ZodType>(path: string, entry: T): Promise<z.output<T>[]> {
    const all: z.output<T>[] = []
    for (let page = 1; page <= PAGES_MAX; page++) {
      const asked = `${path}?limit=${PAGE}&page=${page}`
      const entries = await this.#ask({ method: 'GET', path: asked }, z.array(entry))
      all.push(...entries)
      if (entries.length < PAGE) break
    }
    return all
  }

  /** The private location of that slug name. */
  async location(slugName: string): Promise<z.output<typeof Location>> {
    const call = { method: 'GET', path: '/v1/private-locations' } as const
    const known = await this.#ask(call, z.array(Location))
    const found = known.find((one) => one.slugName === slugName)
    if (found !== undefined) return found
    const names = known
      .map((one) => one.slugName)
      .toSorted()
      .join(', ')
    const there = names === '' ? 'there is none' : `there are ${names}`
    throw new MigrationError('refused', `there is no private location “${slugName}”; ${there}`)
  }

  /** Writes the new runtime; resolves with a problem if the resource has changed since `updatedAt`. */
  async change(path: string, move: Move, updatedAt: string | null): Promise<string | undefined> {
    const now = await this.#ask({ method: 'GET', path }, Changing)
    if (now.updated_at !== updatedAt || now.runtimeId !== move.from) {
      return 'it has changed on the platform since it was run; run this again'
    }
    const body = Buffer.from(JSON.stringify({ runtimeId: move.to }))
    await this.#ask({ method: 'PATCH', path, body }, Changing)
    return undefined
  }

  async #ask<T extends z.ZodType>(
    call: Pick<PublicCall, 'method' | 'path' | 'body'>,
    schema: T,
  ): Promise<z.output<T>> {
    try {
      const bounds = { deadlineMs: CALL_MS, signal: this.#signal }
      const answer = await callPublicApi(this.#target, { ...call, ...bounds })
      const parsed = answer.status === 200 ? schema.safeParse(answer.json) : undefined
      if (parsed?.success === true) return parsed.data
      throw refusal(answer, this.#target, call.path)
    } catch (error) {
      if (error instanceof ApplyError) throw new MigrationError(error.code, error.message)
      if (!(error instanceof LinkError)) throw error
      throw new MigrationError('unreachable', error.message)
    }
  }
}
