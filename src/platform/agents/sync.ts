// POST /agent/v1/sync: an agent reports its presence and state, and receives its changes.
// Without changes the call waits for some.
import PQueue from 'p-queue'
import {
  PROTOCOL_BOUNDS,
  SyncAnswer,
  SyncRequest,
  type AgentFacts,
} from '../../contract/protocol/agent-protocol.ts'
import {
  type AgentSaying,
  type AgentStanding,
  agentStanding,
  touchAgent,
} from './queries/agents.ts'
import type { Database } from '../../database/database.ts'
import {
  type AgentCall,
  defineAgentOperation,
  type DefinedAgentOperation,
} from '../http/agent-operation.ts'
import { readJson } from '../http/body.ts'
import { ApiError, orNotFound } from '../http/errors.ts'
import type { PendingCalls } from './pending-calls.ts'
import type { News, NewsWatch } from '../../database/news.ts'
import { type AgentRegistry, superseded } from './agent-registry.ts'
import { checked, type Answer } from '../http/operation.ts'
import type { PlatformClock } from '../../database/platform-clock.ts'
import { createRunHandOut, REPORT_AGAIN_MS, type RunsToReport } from '../runs/hand-out.ts'
import type { Cipher } from '../secrets/cipher.ts'
import { type AnswerHead, bodyOf, shortAnswer, writeAnswer } from './sync-answer.ts'
import { readChanges, tokenOf } from './sync-changes.ts'
import { RUNTIMES } from '../../contract/runtimes.ts'
import { type Manifest, manifestFor, MANIFESTS } from '../../contract/versions.ts'
import { DEFINITIONS } from '../../monitors/definitions.ts'
import { abilityNames } from './assignment.ts'

export interface SyncOptions {
  database: Database
  cipher: Cipher
  clock: PlatformClock
  agentRegistry: AgentRegistry
  news: News
  pendingCalls: PendingCalls
}

const BODY_BOUNDS = {
  bodyBytesMax: PROTOCOL_BOUNDS.syncBytesMax,
  bodyMs: 15_000,
  jsonDepthMax: 8,
  // Agents compress long bodies, such as the report of a leaving agent.
  gzip: true,
}
/** Number of answers with monitors written concurrently: each may take some megabytes. */
const LARGE_AT_ONCE = 2
/** From this many monitors on an answer counts as large. */
const LARGE_MONITORS = 5
/** How long a call waits while the platform drains. */
const DRAINING_HOLD_MS = 1_000
const FULL_PASSED_EVERY_MS = 3_600_000

interface Call {
  accountId: string
  said: AgentSaying
  request: SyncRequest
  receivedAt: number
  artifactBytesMax: number
  packed: boolean
}

/** The call by which agents synchronize. */
export function syncOperation(options: SyncOptions): DefinedAgentOperation {
  const sync = new Sync(options)
  return defineAgentOperation({
    summary: 'Report the state of an agent, and receive its changes',
    description:
      'Waits for up to waitMs while there are no changes. An agent that does not call for 30 seconds counts as lost. A second call of an agent ends its first.',
    method: 'post',
    path: '/agent/v1/sync',
    kind: 'sync',
    body: {
      contentType: 'application/json',
      schema: SyncRequest,
      bytesMax: BODY_BOUNDS.bodyBytesMax,
      description: `At most ${BODY_BOUNDS.bodyBytesMax} bytes, unpacked as well; Content-Encoding gzip is welcome.`,
    },
    answers: {
      schema: SyncAnswer,
      description: 'What changed; packed by gzip where it is large and Accept-Encoding allows it',
    },
    errors: {
      403: 'The agent is older than the first milestone that the platform knows, or the location is full',
      404: 'The location was deleted',
      409: 'Another process has taken over the agent’s id',
    },
    answer: (call) => sync.answer(call),
  })
}

class Sync {
  readonly #options: SyncOptions
  readonly #large = new PQueue({ concurrency: LARGE_AT_ONCE })
  readonly #handOutRuns: ReturnType<typeof createRunHandOut>

  constructor(options: SyncOptions) {
    this.#options = options
    this.#handOutRuns = createRunHandOut(options)
  }

  async answer({ c, key, receivedAt }: AgentCall<Record<string, never>>): Promise<Answer> {
    const request = checked(SyncRequest, await readJson(c, BODY_BOUNDS))
    const manifest = manifestOf(request.agent)
    const { agent, queues, networkProblem } = request
    const call: Call = {
      accountId: key.accountId,
      said: {
        locationId: key.locationId,
        id: agent.id.toLowerCase(),
        instance: agent.instance.toLowerCase(),
        version: agent.version,
        image: agent.image,
        abilities: abilitiesOf(agent, manifest),
        queues,
        networkProblem,
      },
      request,
      receivedAt,
      artifactBytesMax: manifest.limits.artifactBytesMax,
      packed: /\bgzip\b/i.test(c.req.header('accept-encoding') ?? ''),
    }
    const { news, pendingCalls } = this.#options
    const watch = news.watch(key.locationId)
    const hold = pendingCalls.begin(`${key.locationId}.${call.said.id}`, c.req.raw.signal)
    try {
      return await this.#hold(call, watch, hold.signal)
    } finally {
      watch.end()
      hold.end()
    }
  }

  /** Answers when there is news or it is time. The watch has begun: no change is missed. */
  async #hold(call: Call, watch: NewsWatch, signal: AbortSignal): Promise<Answer> {
    const { said, request } = call
    const entered = await this.#enter(call)
    const runsAsk = {
      locationId: said.locationId,
      agentId: said.id,
      said: request.runs,
      leaving: request.state === 'leaving',
    }
    let { standing } = entered
    let until = performance.now() + (entered.isNews ? 0 : request.waitMs)
    if (this.#options.pendingCalls.isDraining)
      until = Math.min(until, performance.now() + DRAINING_HOLD_MS)
    for (;;) {
      if (standing.instance !== said.instance) throw superseded(said.id)
      const runs = await this.#handOutRuns(runsAsk, standing)
      const hasChanges =
        standing.state === 'live' && tokenOf(standing, said.instance) !== request.have
      // A lost agent calls again at once, and is registered again.
      const isNews = hasChanges || runs.isNews || standing.state === 'lost'
      const leftMs = until - performance.now()
      if (isNews || leftMs <= 0 || signal.aborted) {
        return this.#respond(call, standing, { runs, hasChanges })
      }
      // What the agent does not confirm becomes news again.
      const hasRuns = runs.runs.length + runs.cancel.length > 0
      const waitMs = hasRuns ? Math.min(leftMs, REPORT_AGAIN_MS + 1) : leftMs
      const hadNews = await watch.wait(waitMs, signal)
      if (!hadNews && !hasRuns) return this.#respond(call, standing, { runs, hasChanges })
      const now = orNotFound(
        await agentStanding(this.#options.database, said.locationId, said.id),
        'location',
      )
      standing = now
    }
  }

  /** Records that the agent is there or leaves. `isNews`: the answer must be sent at once. */
  async #enter({ said, request }: Call): Promise<{ standing: AgentStanding; isNews: boolean }> {
    const { database, agentRegistry, clock } = this.#options
    const isLeaving = request.state === 'leaving'
    // Runs on demand of a leaving agent stay with it for as long as it says that it finishes them.
    const known = await touchAgent(database, said, isLeaving ? 'left' : 'live')
    if (known !== undefined) return { standing: known, isNews: false }
    if (isLeaving) {
      const { leftAt = clock.now(), notStarted = [] } = request
      await agentRegistry.leave(said, { atMs: leftAt, notStarted })
    } else await agentRegistry.register(said)
    const standing = orNotFound(await agentStanding(database, said.locationId, said.id), 'location')
    return { standing, isNews: isLeaving }
  }

  async #respond(
    call: Call,
    standing: AgentStanding,
    { runs: { runs, cancel }, hasChanges }: { runs: RunsToReport; hasChanges: boolean },
  ): Promise<Answer> {
    const { cipher, clock, pendingCalls } = this.#options
    const head: AnswerHead = {
      receivedAt: call.receivedAt,
      location: {
        id: call.said.locationId,
        slugName: standing.slug_name,
        accountId: call.accountId,
        proxyUrl: standing.proxy_url === null ? null : cipher.decrypt(standing.proxy_url),
      },
      revision: tokenOf(standing, call.said.instance),
      runs,
      cancel,
      settings: {
        fullPassedEveryMs: FULL_PASSED_EVERY_MS,
        artifactBytesMax: call.artifactBytesMax,
      },
      peers: standing.peers,
    }
    // So that agents turn to another process.
    const headers: Record<string, string> = pendingCalls.isDraining ? { Connection: 'close' } : {}
    if (!hasChanges) {
      const revision = call.request.have ?? ''
      return { json: shortAnswer({ ...head, revision }, clock.now()), headers }
    }
    return this.#respondChanges(call, head, headers)
  }

  async #respondChanges(
    { said, request, accountId, packed }: Call,
    head: AnswerHead,
    headers: Record<string, string>,
  ): Promise<Answer> {
    const { database, cipher, clock } = this.#options
    const { locationId, id: agentId, instance } = said
    const now = () => clock.now()
    const ask = { accountId, locationId, agentId, instance, have: request.have }
    const { changes, token } = await readChanges(this.#options, { ...ask, nowMs: now() })
    const isLarge = changes.set.length >= LARGE_MONITORS
    const write = () => {
      const parts = { database, cipher, locationId, now }
      const text = writeAnswer(parts, { ...head, revision: token }, changes)
      return bodyOf(text, packed && isLarge)
    }
    const body = isLarge ? await this.#large.add(write) : await write()
    const coding = packed && isLarge ? { 'Content-Encoding': 'gzip' } : {}
    return { json: body, headers: { ...headers, ...coding } }
  }
}

/** Types of monitors that a version has had. */
const RELEASED_TYPES = new Set(MANIFESTS.flatMap(({ checkTypes }) => checkTypes))

/** The manifest of an agent's version. Throws 403 for one before the first milestone. */
function manifestOf({ version }: AgentFacts): Manifest {
  const manifest = manifestFor(version)
  if (manifest !== undefined) return manifest
  const first = MANIFESTS[0]?.version
  throw new ApiError(403, `Agent ${version} is too old: this platform needs ${first} or newer`)
}

/**
 * The abilities of an agent, in the format of needs and in a fixed order, so that equal ones are equal. An
 * image that the manifest does not name may have everything that its version has. A manifest says which
 * runtimes an image brings along; older ones can be installed next to them, and what is installed counts.
 */
function abilitiesOf(agent: AgentFacts, manifest: Manifest): string[] {
  const types = new Set(manifest.images[agent.image] ?? manifest.checkTypes)
  // A type that no version has yet is for the agent to know.
  const isAble = (type: string) =>
    types.has(type) || (DEFINITIONS.has(type) && !RELEASED_TYPES.has(type))
  const engines = new Set(manifest.engines)
  const names = abilityNames({
    checkTypes: agent.checkTypes.filter(isAble),
    engines: agent.engines.filter((engine) => engines.has(engine)),
    runtimes: agent.runtimes.filter((runtime) => RUNTIMES.has(runtime)),
  })
  return [...new Set(names)].toSorted()
}
