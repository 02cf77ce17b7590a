// The calls between an agent and its platform, all of them the agent's: sync, presence, results, artifacts.
// Outbound HTTPS with the location's key as bearer. Instants are milliseconds since the Unix epoch on the
// platform's clock, unless it says otherwise.
import * as z from 'zod'
import { Monitor, Variable } from '../monitor.ts'
import { AGENT_MISSED_REASONS, VERDICTS } from '../result.ts'
import { PROGRESS_BOUNDS, ProgressWire, SlotUnderWay } from './run-progress.ts'

/** How far the calls between agent and platform may go; units stand last in the names. */
export const PROTOCOL_BOUNDS = {
  /** Longest hold of a sync whose answer has no news. */
  syncHoldMsMax: 25_000,
  /** Silence after which an agent counts as lost. */
  agentSilenceMsMax: 30_000,
  /** The body of a sync: what a leaving agent had not started is most of it. */
  syncBytesMax: 16 * 1024 * 1024,
  /** Agents that share a location's monitors at a time. */
  membersMax: 500,
  /** How far ahead a planned change of who runs what is announced. */
  handOverMs: 3_000,
  resultsPerBatchMax: 1_000,
  /** Spans of lost results in a batch, and slots that are filled in for them. */
  droppedPerBatchMax: 1_000,
  droppedSlotsPerBatchMax: 10_000,
  /** A batch as it is sent, and unpacked. */
  batchBytesMax: 4 * 1024 * 1024,
  batchUnpackedBytesMax: 16 * 1024 * 1024,
  /** One result as JSON; what is longer loses what was observed, then is refused. */
  resultBytesMax: 256 * 1024,
  /** A result that comes later than this after its run ended changes history, not alerts. */
  lateAfterMs: 120_000,
  /** How far a slot, or the start of its run, may lie ahead of the platform's clock, which agents follow. */
  aheadMsMax: 5_000,
  /** How far before its slot a run may say that it started: clocks are corrected while it runs. */
  startedEarlyMsMax: 60_000,
  artifactsPerResultMax: 100,
  /** One artifact, from its first byte to its last. */
  artifactMsMax: 1_800_000,
  onDemandRunsMax: 1_000,
} as const

const instant = z.number().min(0).max(8.64e15)
const slotInstant = z.int().min(0).max(8.64e15)
const guid = z.guid().meta({ format: 'uuid' })
const count = z.int().min(0).max(1_000_000_000)

/** What an agent is and can do. */
export const AgentFacts = z.object({
  /** Kept in its folder: the same after a restart. */
  id: guid,
  /** Another one after each start. */
  instance: guid,
  version: z.string().regex(/^\d{1,6}\.\d{1,6}\.\d{1,6}$/),
  /** `agent`, `agent-uptime` or another build. */
  image: z.string().min(1).max(64),
  /** Newer agents may know types that the platform does not. */
  checkTypes: z.array(z.string().max(64)).max(100),
  /** Such as `node@24`. */
  engines: z.array(z.string().max(32)).max(50),
  /** Such as `2026.04`. */
  runtimes: z.array(z.string().max(32)).max(50),
})
export type AgentFacts = z.infer<typeof AgentFacts>

const Queue = z.object({
  waiting: count,
  running: count,
  free: count,
  /** How long the one that waits longest has been due. */
  oldestMs: instant.optional(),
})

/** What an agent says when it syncs. Unknown fields are ignored, so that newer agents can say more. */
export const SyncRequest = z.object({
  agent: AgentFacts,
  /** `leaving`: it starts no slot from `leftAt` on; what it had not started is named. */
  state: z.enum(['running', 'leaving']),
  leftAt: instant.optional(),
  notStarted: z
    .array(z.object({ monitorId: guid, slot: instant }))
    .max(100_000)
    .optional(),
  /** The `revision` of the last answer that it holds; null when it has none. */
  have: z.string().max(64).nullable(),
  /** Runs on demand that it has taken and not yet finished. */
  runs: z
    .array(z.object({ run: guid, state: z.enum(['waiting', 'running']) }))
    .max(PROTOCOL_BOUNDS.onDemandRunsMax),
  queues: z.object({
    uptime: Queue,
    /** `slots`: those that run; whoever has been said to run is not missed. */
    scripted: Queue.extend({
      slots: z.array(SlotUnderWay).max(PROGRESS_BOUNDS.slotsMax).optional(),
    }),
  }),
  /** Code of what is wrong with its own network; absent while that works. */
  networkProblem: z.string().min(1).max(64).optional(),
  /** How long to hold the call when there is no news. */
  waitMs: z.int().min(0).max(PROTOCOL_BOUNDS.syncHoldMsMax),
})
export type SyncRequest = z.infer<typeof SyncRequest>

/** A monitor that an agent is to run: the slots n × everyMs + offsetMs within [from, until). */
export const AssignedMonitor = z.object({
  monitor: Monitor,
  slots: z.object({ everyMs: z.number(), offsetMs: z.number() }),
  /**
   * No slot before it is this agent's. Where it lies in the past, the newest slot that has passed since
   * then is run at once; those between are left to the platform's account.
   */
  from: instant,
  until: instant.optional(),
})
export type AssignedMonitor = z.infer<typeof AssignedMonitor>

/** What the platform answers. Unknown fields are ignored, so that newer platforms can say more. */
export const SyncAnswer = z.object({
  /** When the request had come and when this was sent, for the agent to set its clock by. */
  receivedAt: instant,
  sentAt: instant,
  location: z.object({
    id: guid,
    slugName: z.string(),
    proxyUrl: z.string().nullable(),
    /** Whose location it is; platforms of before do not say. */
    accountId: guid.optional(),
  }),
  /** To be sent as `have` once the changes are taken. Opaque. */
  revision: z.string(),
  /** Null: what the agent has still holds. */
  changes: z
    .object({
      /** What is not in `set` is dropped at once, but for what `drop` names. */
      whole: z.boolean(),
      /** Each takes the place of what the agent had of that monitor; slots that it has begun stay so. */
      set: z.array(AssignedMonitor),
      /** Given up: slots before `until` are still this agent's. Some it may never have had. */
      drop: z.array(z.object({ monitorId: guid, until: instant })),
      /** Known to all monitors of the account. */
      variables: z.array(Variable),
    })
    .nullable(),
  /** To be run now, told again until the agent names them among its runs or delivers their result. */
  runs: z.array(z.object({ run: guid, monitor: Monitor })),
  /** Runs on demand to be cancelled, told again until their result is there. */
  cancel: z.array(guid),
  settings: z.object({
    /** Full observations of passed results are sent once in this time for each monitor. */
    fullPassedEveryMs: z.number().min(0),
    artifactBytesMax: z.number().min(0),
  }),
  /** Live agents of the location that can take over, this one not counted. */
  peers: z.number(),
})
export type SyncAnswer = z.infer<typeof SyncAnswer>

/**
 * What an agent says beside a sync that is held, or whose answer is still on its way. Unknown fields are
 * ignored.
 */
export const PresenceRequest = z.object({
  agentId: guid,
  instance: guid,
  /** How far its runs on demand are. */
  progress: z.array(ProgressWire).max(PROGRESS_BOUNDS.runsMax).optional(),
})

/** Whether the agent is known, by this process, as one that is live. */
export const PresenceAnswer = z.object({ live: z.boolean() })

const FailureWire = z.object({
  code: z.string().max(64),
  message: z.string().max(20_000),
  details: z.record(z.string(), z.unknown()).optional(),
})

/** A file of a result, as it is announced. */
export const ArtifactWire = z.object({
  name: z.string().min(1).max(255),
  bytes: z.int().min(0),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  contentType: z.string().max(255),
})

/** A result on the wire: what can be looked up or is empty is left out. */
export const WireResult = z.object({
  monitorId: guid,
  /** The instant of the slot; of a run on demand the instant of its start. */
  slot: slotInstant,
  onDemand: guid.optional(),
  verdict: z.enum(VERDICTS),
  missedReason: z.enum(AGENT_MISSED_REASONS).optional(),
  startedAt: instant,
  /** How far `startedAt` may be off the platform's clock, at most; absent: the agent cannot say. */
  clockUncertaintyMs: z.number().min(0).max(86_400_000).optional(),
  durationMs: z.number().min(0).max(86_400_000),
  responseTimeMs: z.number().min(0).max(86_400_000).optional(),
  /** How many were made; all of them stand in `detail` where there is one. */
  attempts: z.int().min(0).max(100),
  failures: z.array(FailureWire).max(100).optional(),
  /** What was observed, and each attempt; left out of most passed results. */
  detail: z
    .object({
      observed: z.record(z.string(), z.unknown()),
      attempts: z.array(z.record(z.string(), z.unknown())).max(100),
    })
    .optional(),
  artifacts: z.array(ArtifactWire).max(PROTOCOL_BOUNDS.artifactsPerResultMax).optional(),
})
export type WireResult = z.infer<typeof WireResult>

/** Results that an agent lost for want of room: those of slots of a monitor within [from, to]. */
export const DroppedSpan = z.object({ monitorId: guid, from: slotInstant, to: slotInstant })
export type DroppedSpan = z.infer<typeof DroppedSpan>

/** A batch. Its results are checked one by one, so that one that is no good spoils no other. */
export const ResultsRequest = z.object({
  agentId: guid,
  results: z.array(z.unknown()).max(PROTOCOL_BOUNDS.resultsPerBatchMax),
  /**
   * Slots of these spans without a result become `missed` with the reason `spool-full`, as many as
   * `droppedSlotsPerBatchMax`; what lies beyond is left to the account of slots.
   */
  dropped: z.array(DroppedSpan).max(PROTOCOL_BOUNDS.droppedPerBatchMax).optional(),
})

/** Why a result was not recorded. None of them is worth sending again. */
export const REFUSAL_CODES = [
  'MALFORMED',
  'TOO_LARGE',
  'MONITOR_UNKNOWN',
  'SLOT_UNKNOWN',
  'SLOT_AHEAD',
  'TOO_OLD',
  'RUN_UNKNOWN',
] as const
export type RefusalCode = (typeof REFUSAL_CODES)[number]

/** What became of a batch: recorded + known + refused = results sent. */
export const ResultsAnswer = z.object({
  recorded: z.number(),
  /** Were there already; the first one stays. */
  known: z.number(),
  /** By their place in the batch. */
  refused: z.array(
    z.object({ index: z.number(), code: z.enum(REFUSAL_CODES), message: z.string() }),
  ),
})
export type ResultsAnswer = z.infer<typeof ResultsAnswer>

/** What the answer to an artifact says. */
export const ArtifactAnswer = z.object({ bytes: z.number(), sha256: z.string() })
export type ArtifactAnswer = z.infer<typeof ArtifactAnswer>

/** The part of an artifact's address that names its result: `<monitor>.<slot>`, or the id of a run. */
export function artifactOwner(result: {
  monitorId: string
  slot: number
  onDemand?: string | undefined
}): string {
  return result.onDemand ?? `${result.monitorId}.${result.slot}`
}

/** Why a key is refused, in `attributes.reason` of a 401: a revoked one will never work again. */
export const KEY_REFUSALS = ['unknown', 'revoked'] as const
export type KeyRefusal = (typeof KEY_REFUSALS)[number]
