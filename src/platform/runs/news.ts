// Runs on demand that a sync has to report, and whether they justify an answer at once. A run reported
// a moment ago is reported again only with an answer that is due anyway.
import type { SyncAnswer } from '../../contract/protocol/agent-protocol.ts'
import type { AgentStanding } from '../agents/queries/agents.ts'
import type { Database, Queryable } from '../../database/database.ts'
import { type EpochMember, readEpochs } from '../agents/queries/location-epochs.ts'
import { createAssignment } from '../agents/assignment.ts'
import type { RunHandOut } from './hand-out.ts'
import { openDefinition } from '../checks/encrypted-monitor.ts'
import type { Cipher } from '../secrets/cipher.ts'

/** `runs` and `cancel` of an answer. */
export type RunsToReport = Pick<SyncAnswer, 'runs' | 'cancel'>

/** Hands out the runs on demand of a location. */
export type HandOutRuns = (connection: Queryable, ask: RunHandOut) => Promise<RunsToReport>

/** Runs on demand to report to one agent. */
export interface RunsReport {
  reported: RunsToReport
  /** At least one of them was not reported lately. */
  isNews: boolean
  /** Records that they are being reported. */
  note(): void
}

/** The agent that asks. */
export type RunsAsk = Pick<RunHandOut, 'locationId' | 'agentId' | 'said' | 'leaving'>

/** A reported run is not reported again before this. */
export const REPORT_AGAIN_MS = 1_000
const REMEMBERED_MAX = 10_000

/** Runs on demand, as reported by the syncs of this process. */
export class RunNews {
  readonly #parts: { database: Database; cipher: Cipher; handOutRuns: HandOutRuns }
  /** `<agent> <run>` → until when it counts as reported. */
  readonly #reported = new Map<string, number>()
  readonly #members = new Map<string, { epoch: number; members: EpochMember[] }>()

  constructor(parts: { database: Database; cipher: Cipher; handOutRuns: HandOutRuns }) {
    this.#parts = parts
  }

  /** Reads the runs to report to the agent. */
  async read(ask: RunsAsk, { epoch }: Pick<AgentStanding, 'epoch'>): Promise<RunsReport> {
    const { database, cipher, handOutRuns } = this.#parts
    const assignment = createAssignment(await this.#membersOf(ask.locationId, epoch))
    const reported = await handOutRuns(database, {
      ...ask,
      ownerOf: (monitorId, needs) => assignment.owner(monitorId, needs)?.id,
      open: (effective) => openDefinition(cipher, effective),
    })
    const keys = [
      ...reported.runs.map(({ run }) => `${ask.agentId} ${run}`),
      ...reported.cancel.map((run) => `${ask.agentId} cancel ${run}`),
    ]
    const now = performance.now()
    return {
      reported,
      isNews: keys.some((key) => (this.#reported.get(key) ?? 0) < now),
      note: () => this.#note(keys),
    }
  }

  #note(keys: readonly string[]): void {
    if (this.#reported.size + keys.length > REMEMBERED_MAX) this.#reported.clear()
    for (const key of keys) this.#reported.set(key, performance.now() + REPORT_AGAIN_MS)
  }

  /** An epoch never changes: its members are asked for once. */
  async #membersOf(locationId: string, epoch: number): Promise<EpochMember[]> {
    const known = this.#members.get(locationId)
    if (known?.epoch === epoch) return known.members
    const epochs = await readEpochs(this.#parts.database, locationId, {
      epoch,
      sinceMs: Number.MAX_SAFE_INTEGER,
    })
    const members = epochs.find((one) => one.epoch === epoch)?.members ?? []
    if (this.#members.size >= REMEMBERED_MAX) this.#members.clear()
    this.#members.set(locationId, { epoch, members })
    return members
  }
}
