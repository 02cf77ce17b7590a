// Protocol between agent and platform: sync, presence, results, artifacts. The agent makes all calls, over
// HTTPS with the location's API key as bearer token. Instants are milliseconds since the Unix epoch on the
// platform's clock, unless stated otherwise.
import * as z from 'zod'
import { Monitor, Variable } from '../monitor.ts'
import { AGENT_MISSED_REASONS, VERDICTS } from '../result.ts'
import { guid, instant, PROGRESS_BOUNDS, ProgressWire, SlotUnderWay } from './run-progress.ts'

/** Bounds of the calls between agent and platform; names end with their unit. */
export const PROTOCOL_BOUNDS = {
  /** Longest time a sync without changes is held open. */
  syncHoldMsMax: 25_000,
  /** Heartbeat timeout: an agent without a call for this long counts as lost. */
  agentTimeoutMs: 30_000,
  /** Body of a sync; the slots that a leaving agent has not started are most of it. */
  syncBytesMax: 16 * 1024 * 1024,
  /** Agents that share a location's monitors at the same time. */
  membersMax: 500,
  /** Lead time of a planned change of assignments. */
  handOverMs: 3_000,
  resultsPerBatchMax: 1_000,
  /** Spans of lost results in a batch, and slots that are filled in for them. */
  droppedPerBatchMax: 1_000,
  droppedSlotsPerBatchMax: 10_000,
  /** A batch, compressed and uncompressed. */
  batchBytesMax: 4 * 1024 * 1024,
  batchUnpackedBytesMax: 16 * 1024 * 1024,
  /** One result as JSON; a longer one loses its observation, then is refused. */
  resultBytesMax: 256 * 1024,
  /** A result later than this after its run ended changes history, not alerts. */
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

const slotInstant = z.int().min(0).max(8.64e15)
const count = z.int().min(0).max(1_000_000_000)

/** Identity and capabilities of an agent. */
export const AgentFacts = z.object({
  /** Stored in its folder: the same after a restart. */
  id: guid,
  /** New after each start. */
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
  /** How long the oldest waiting run has been due. */
  oldestMs: instant.optional(),
})

/** Sync request of an agent. Unknown fields are ignored, so that newer agents can send more. */
export const SyncRequest = z.object({
  agent: AgentFacts,
  /** `leaving`: it starts no slot from `leftAt` on; `notStarted` lists the slots it has not started. */
  state: z.enum(['running', 'leaving']),
  leftAt: instant.optional(),
  notStarted: z
    .array(z.object({ monitorId: guid, slot: instant }))
    .max(100_000)
    .optional(),
  /** `revision` of the last applied answer; null for none. */
  have: z.string().max(64).nullable(),
  /** Runs on demand that it has accepted and not yet finished. */
  runs: z
    .array(z.object({ run: guid, state: z.enum(['waiting', 'running']) }))
    .max(PROTOCOL_BOUNDS.onDemandRunsMax),
  queues: z.object({
    uptime: Queue,
    /** `slots`: the running ones; a slot reported as running does not count as missed. */
    scripted: Queue.extend({
      slots: z.array(SlotUnderWay).max(PROGRESS_BOUNDS.slotsMax).optional(),
    }),
  }),
  /** Code of the problem of its own network; left out while there is none. */
  networkProblem: z.string().min(1).max(64).optional(),
  /** How long to hold the call open without changes. */
  waitMs: z.int().min(0).max(PROTOCOL_BOUNDS.syncHoldMsMax),
})
export type SyncRequest = z.infer<typeof SyncRequest>

/** A monitor that an agent is to run: the slots n × everyMs + offsetMs within [from, until). */
export const AssignedMonitor = z.object({
  monitor: Monitor,
  slots: z.object({ everyMs: z.number(), offsetMs: z.number() }),
  /**
   * Slots before it are not this agent's. If it lies in the past, the newest slot that has passed since
   * then is run at once; the slots between are left to the platform's account of slots.
   */
  from: instant,
  until: instant.optional(),
})
export type AssignedMonitor = z.infer<typeof AssignedMonitor>

/** Answer to a sync. Unknown fields are ignored, so that newer platforms can send more. */
export const SyncAnswer = z.object({
  /** When the request was received and this answer sent; the agent sets its clock by both. */
  receivedAt: instant,
  sentAt: instant,
  location: z.object({
    id: guid,
    slugName: z.string(),
    proxyUrl: z.string().nullable(),
    /** Account of the location; older platforms do not send it. */
    accountId: guid.optional(),
  }),
  /** To be sent as `have` once the changes are applied. Opaque. */
  revision: z.string(),
  /** Null: no changes. */
  changes: z
    .object({
      /** Monitors in neither `set` nor `drop` are dropped at once. */
      whole: z.boolean(),
      /** Each replaces the agent's assignment of that monitor; started slots continue. */
      set: z.array(AssignedMonitor),
      /** Assignments that end: slots before `until` are still this agent's. May name unknown monitors. */
      drop: z.array(z.object({ monitorId: guid, until: instant })),
      /** Known to all monitors of the account. */
      variables: z.array(Variable),
    })
    .nullable(),
  /** Runs to start now; repeated until the agent lists them in `runs` or delivers their result. */
  runs: z.array(z.object({ run: guid, monitor: Monitor })),
  /** Runs on demand to cancel; repeated until their result is recorded. */
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

/** Presence call of an agent while its sync is held open or being answered. Unknown fields are ignored. */
export const PresenceRequest = z.object({
  agentId: guid,
  instance: guid,
  /** Progress of its runs on demand. */
  progress: z.array(ProgressWire).max(PROGRESS_BOUNDS.runsMax).optional(),
})

/** Whether this process knows the agent as live. */
export const PresenceAnswer = z.object({ live: z.boolean() })

const FailureWire = z.object({
  code: z.string().max(64),
  message: z.string().max(20_000),
  details: z.record(z.string(), z.unknown()).optional(),
})

/** Announcement of a result's artifact. */
const ArtifactWire = z.object({
  name: z.string().min(1).max(255),
  bytes: z.int().min(0),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  contentType: z.string().max(255),
})

/** A result on the wire, without derivable or empty fields. */
export const WireResult = z.object({
  monitorId: guid,
  /** The instant of the slot; of a run on demand the instant of its start. */
  slot: slotInstant,
  onDemand: guid.optional(),
  verdict: z.enum(VERDICTS),
  missedReason: z.enum(AGENT_MISSED_REASONS).optional(),
  startedAt: instant,
  /** Largest error of `startedAt` against the platform's clock; left out if unknown. */
  clockUncertaintyMs: z.number().min(0).max(86_400_000).optional(),
  durationMs: z.number().min(0).max(86_400_000),
  responseTimeMs: z.number().min(0).max(86_400_000).optional(),
  /** Number of attempts; `detail`, if present, lists all of them. */
  attempts: z.int().min(0).max(100),
  failures: z.array(FailureWire).max(100).optional(),
  /** Observation and attempts; left out of most passed results. */
  detail: z
    .object({
      observed: z.record(z.string(), z.unknown()),
      attempts: z.array(z.record(z.string(), z.unknown())).max(100),
    })
    .optional(),
  artifacts: z.array(ArtifactWire).max(PROTOCOL_BOUNDS.artifactsPerResultMax).optional(),
})
export type WireResult = z.infer<typeof WireResult>

/** Results that an agent dropped because its spool was full: slots of a monitor within [from, to]. */
export const DroppedSpan = z.object({ monitorId: guid, from: slotInstant, to: slotInstant })
export type DroppedSpan = z.infer<typeof DroppedSpan>

/** A batch of results. Each result is validated alone, so that an invalid one affects no other. */
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
const REFUSAL_CODES = [
  'MALFORMED',
  'TOO_LARGE',
  'MONITOR_UNKNOWN',
  'SLOT_UNKNOWN',
  'SLOT_AHEAD',
  'TOO_OLD',
  'RUN_UNKNOWN',
] as const
export type RefusalCode = (typeof REFUSAL_CODES)[number]

/** Outcome of a batch: recorded + known + refused = results sent. */
export const ResultsAnswer = z.object({
  recorded: z.number(),
  /** Recorded before; the first result stays. */
  known: z.number(),
  /** By their index in the batch. */
  refused: z.array(
    z.object({ index: z.number(), code: z.enum(REFUSAL_CODES), message: z.string() }),
  ),
})
export type ResultsAnswer = z.infer<typeof ResultsAnswer>

/** Answer to an artifact. */
export const ArtifactAnswer = z.object({ bytes: z.number(), sha256: z.string() })
export type ArtifactAnswer = z.infer<typeof ArtifactAnswer>

/** Part of an artifact's path that identifies its result: `<monitor>.<slot>`, or the id of a run. */
export function artifactOwner(result: {
  monitorId: string
  slot: number
  onDemand?: string | undefined
}): string {
  return result.onDemand ?? `${result.monitorId}.${result.slot}`
}

/** Why a key is refused, in `attributes.reason` of a 401: a revoked one will never work again. */
export type KeyRefusal = 'unknown' | 'revoked'
