// An agent from the platform's view: it syncs over HTTP, stores its assignment, and runs nothing.
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

/** The API that an agent calls. */
export type AgentsEnd = Pick<AgentsApi, 'url' | 'check'>

/** The answer to a sync. */
export interface SyncedAnswer {
  status: number
  headers: Headers
  /** Undefined for an error. */
  answer: SyncAnswer | undefined
  body: { message?: string; attributes?: Record<string, unknown> }
}

/** Facts of an agent of this version with every ability. */
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

/** A span of slots assigned to an agent: [from, until). */
export interface OwnedSpan {
  from: number
  until: number
}

/** An agent that only syncs. */
export class FakeAgent {
  facts: AgentFacts
  have: string | null = null
  peers = 0
  /** The current assignment, from the last answer. */
  readonly monitors = new Map<string, AssignedMonitor>()
  /** Every span of all answers, by monitor; a later one replaces what it overlaps. */
  readonly spans = new Map<string, OwnedSpan[]>()
  readonly #secret: string

  constructor(secret: string, facts: Partial<AgentFacts> = {}) {
    this.#secret = secret
    this.facts = agentFacts(facts)
  }

  /** As after a restart: another instance without assignment. */
  restart(facts: Partial<AgentFacts> = {}): void {
    this.facts = { ...this.facts, instance: randomUUID(), ...facts }
    this.have = null
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
      for (const [id, spans] of this.spans) {
        if (ending.has(id)) continue
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
    // The new span replaces the old one: the agent no longer owns earlier slots.
    for (const span of spans) span.until = Math.min(span.until, from, Date.now())
    this.spans.set(id, [...spans.filter((span) => span.until > span.from), { from, until }])
  }
}
