// An agent as the platform sees it: it syncs over HTTP and keeps what it is told, and runs nothing.
import { randomUUID } from 'node:crypto'
import {
  type AgentFacts,
  type AssignedMonitor,
  PROTOCOL_BOUNDS,
  SyncAnswer,
  type SyncRequest,
} from '../../../src/contract/protocol/agent-protocol.ts'
import { manifestFor, VERSION } from '../../../src/contract/versions.ts'
import type { AgentsApi } from './agents-api.ts'

/** Where an agent calls. */
export type AgentsEnd = Pick<AgentsApi, 'url' | 'check'>

/** The answer to a sync. */
export interface SyncedAnswer {
  status: number
  headers: Headers
  /** Undefined for an error. */
  answer: SyncAnswer | undefined
  body: { message?: string; attributes?: Record<string, unknown> }
}

/** Facts of an agent of a version with everything that it can have. */
export function agentFacts(facts: Partial<AgentFacts> = {}): AgentFacts {
  const version = facts.version ?? VERSION
  const manifest = manifestFor(version)
  return {
    id: randomUUID(),
    instance: randomUUID(),
    version,
    image: 'agent',
    checkTypes: manifest?.checkTypes ?? [],
    engines: manifest?.engines ?? [],
    runtimes: manifest?.runtimes ?? [],
    ...facts,
  }
}

/** A span of slots that are an agent's: [from, until). */
export interface OwnedSpan {
  from: number
  until: number
}

/** An agent that only listens. */
export class FakeAgent {
  facts: AgentFacts
  have: string | null = null
  peers = 0
  /** What it is to run now, as it was told last. */
  readonly monitors = new Map<string, AssignedMonitor>()
  /** Every span that it was ever told of, by monitor; a later one replaces what it overlaps. */
  readonly spans = new Map<string, OwnedSpan[]>()
  readonly #secret: string

  constructor(secret: string, facts: Partial<AgentFacts> = {}) {
    this.#secret = secret
    this.facts = agentFacts(facts)
  }

  /** As after a restart: another instance that holds nothing. */
  restart(facts: Partial<AgentFacts> = {}): void {
    this.facts = { ...this.facts, instance: randomUUID(), ...facts }
    this.have = null
  }

  /** Syncs once and takes what the answer says. `waitMs` is 0 unless the request says otherwise. */
  async sync(api: AgentsEnd, request: Partial<SyncRequest> = {}): Promise<SyncedAnswer> {
    const said = await this.send(api, { ...this.#request(), ...request })
    if (said.answer !== undefined) this.#take(said.answer)
    return said
  }

  /** Says that it leaves. */
  leave(api: AgentsEnd, request: Partial<SyncRequest> = {}): Promise<SyncedAnswer> {
    return this.sync(api, { state: 'leaving', leftAt: Date.now(), ...request })
  }

  /** Sends any body as a sync. */
  async send(
    api: AgentsEnd,
    body: unknown,
    { signal, headers }: { signal?: AbortSignal; headers?: Record<string, string> } = {},
  ): Promise<SyncedAnswer> {
    const path = '/agent/v1/sync'
    const response = await fetch(`${api.url}${path}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${this.#secret}`,
        'content-type': 'application/json',
        ...headers,
      },
      body: typeof body === 'string' ? body : JSON.stringify(body),
      signal: signal ?? AbortSignal.timeout(PROTOCOL_BOUNDS.syncHoldMsMax + 10_000),
    })
    const text = await response.text()
    api.check('POST', path, { status: response.status, headers: response.headers, text })
    const parsed = JSON.parse(text) as SyncedAnswer['body']
    return {
      status: response.status,
      headers: response.headers,
      answer: response.ok ? SyncAnswer.parse(parsed) : undefined,
      body: parsed,
    }
  }

  #request(): SyncRequest {
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

  #take({ changes, revision, peers }: SyncAnswer): void {
    this.peers = peers
    this.have = revision
    if (changes === null) return
    if (changes.whole) {
      const kept = new Set(changes.drop.map(({ monitorId }) => monitorId))
      for (const [id, spans] of this.spans) {
        if (kept.has(id)) continue
        this.monitors.delete(id)
        for (const span of spans) span.until = Math.min(span.until, Date.now())
      }
    }
    for (const assigned of changes.set) this.#set(assigned)
    for (const { monitorId, until } of changes.drop) {
      this.monitors.delete(monitorId)
      const spans = this.spans.get(monitorId) ?? []
      for (const span of spans) span.until = Math.min(span.until, until)
    }
  }

  #set(assigned: AssignedMonitor): void {
    const { id } = assigned.monitor
    this.monitors.set(id, assigned)
    const { from, until = Infinity } = assigned
    const spans = this.spans.get(id) ?? []
    // It takes the place of what was there: none of the slots before it is this agent's any more.
    for (const span of spans) span.until = Math.min(span.until, from, Date.now())
    this.spans.set(id, [...spans.filter((span) => span.until > span.from), { from, until }])
  }
}
