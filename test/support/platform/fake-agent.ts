// An agent from the platform's view: it syncs over HTTP, stores its assignment, and runs nothing.
import { randomUUID } from 'node:crypto'
import {
  type AgentFacts,
  type AssignedMonitor,
  SyncAnswer,
  type SyncRequest,
} from '../../../src/contract/protocol/agent-protocol.ts'
import { manifestFor, VERSION } from '../../../src/contract/versions.ts'
import type { AgentsApi } from './agents-api.ts'
import { type ApiAnswer, type ApiRequest, callApi, type Loose } from './api-document.ts'

/** The API that an agent calls. */
export type AgentsEnd = Pick<AgentsApi, 'url' | 'check'>

/** A request with the key of a location; without a secret nobody says who it is. */
export type KeyedPost = ApiRequest & { secret?: string }

/** Posts to the agents' API. */
export function postWithKey(api: AgentsEnd, path: string, { secret, ...request }: KeyedPost) {
  const own = secret === undefined ? {} : { authorization: `Bearer ${secret}` }
  return callApi(api, own, 'POST', path, request)
}

/** The answer to a sync; `answer` is undefined for an error. */
export type SyncedAnswer = ApiAnswer<Loose> & { answer: SyncAnswer | undefined }

const NO_ABILITIES = { checkTypes: [], engines: [], runtimes: [] }

/** An agent that only syncs. */
export class FakeAgent {
  facts: AgentFacts
  have: string | null = null
  peers = 0
  /** The current assignment, from the last answer. */
  readonly monitors = new Map<string, AssignedMonitor>()
  /** Every span of all answers, by monitor; a later one replaces what it overlaps. */
  readonly spans = new Map<string, { from: number; until: number }[]>()
  readonly #secret: string

  /** By default an agent of this version with every ability. */
  constructor(secret: string, facts: Partial<AgentFacts> = {}) {
    this.#secret = secret
    const { version = VERSION } = facts
    const { checkTypes, engines, runtimes } = manifestFor(version) ?? NO_ABILITIES
    const ids = { id: randomUUID(), instance: randomUUID() }
    this.facts = { ...ids, version, image: 'agent', checkTypes, engines, runtimes, ...facts }
  }

  /** As after a restart: another instance without assignment. */
  restart(facts: Partial<AgentFacts> = {}): void {
    this.facts = { ...this.facts, instance: randomUUID(), ...facts }
    this.have = null
    this.monitors.clear()
  }

  /** Syncs once and applies the answer. `waitMs` is 0 unless the request has it. */
  async sync(api: AgentsEnd, request: Partial<SyncRequest> = {}): Promise<SyncedAnswer> {
    const said = await this.send(api, { ...this.request(), ...request })
    if (said.answer !== undefined) this.#apply(said.answer)
    return said
  }

  /** Syncs with a handover of its monitors. */
  leave(api: AgentsEnd, request: Partial<SyncRequest> = {}): Promise<SyncedAnswer> {
    return this.sync(api, { state: 'leaving', leftAt: Date.now(), ...request })
  }

  /** Sends any body as a sync. */
  async send(
    api: AgentsEnd,
    body: unknown,
    more: Pick<KeyedPost, 'signal' | 'headers'> = {},
  ): Promise<SyncedAnswer> {
    const sent = typeof body === 'string' ? { raw: body } : { body }
    const request = { secret: this.#secret, ...sent, ...more }
    const said = await postWithKey(api, '/agent/v1/sync', request)
    return { ...said, answer: said.status === 200 ? SyncAnswer.parse(said.body) : undefined }
  }

  /** What it sends, without waiting. */
  request(): SyncRequest {
    const queue = { waiting: 0, running: 0, free: 10 }
    return {
      agent: this.facts,
      state: 'running',
      have: this.have,
      runs: [],
      queues: { uptime: queue, scripted: queue },
      waitMs: 0,
    }
  }

  #apply({ changes, revision, peers }: SyncAnswer): void {
    this.peers = peers
    this.have = revision
    if (changes === null) return
    if (changes.whole) {
      const ending = new Set(changes.drop.map(({ monitorId }) => monitorId))
      for (const id of this.spans.keys()) if (!ending.has(id)) this.#end(id, Date.now())
    }
    for (const assigned of changes.set) this.#set(assigned)
    for (const { monitorId, until } of changes.drop) this.#end(monitorId, until)
  }

  #end(id: string, until: number): void {
    this.monitors.delete(id)
    for (const span of this.spans.get(id) ?? []) span.until = Math.min(span.until, until)
  }

  #set(assigned: AssignedMonitor): void {
    const { monitor, from, until = Infinity } = assigned
    const { id } = monitor
    this.monitors.set(id, assigned)
    const spans = this.spans.get(id) ?? []
    // The new span replaces the old one: the agent no longer owns earlier slots.
    for (const span of spans) span.until = Math.min(span.until, from, Date.now())
    this.spans.set(id, [...spans.filter((span) => span.until > span.from), { from, until }])
  }
}
