// Which runs on demand a sync has to tell of, and whether that is worth an answer at once: what an agent
// was told a moment ago it is told again only with an answer that is due anyway.
import type { SyncAnswer } from '../../contract/protocol/agent-protocol.ts'
import type { AgentStanding } from '../agents/queries/agents.ts'
import type { Database } from '../../database/database.ts'
import { type EpochMember, readEpochs } from '../agents/queries/location-epochs.ts'
import type { Connection } from '../../database/statement.ts'
import { createAssignment } from '../agents/assignment.ts'
import type { RunHandOut } from './hand-out.ts'
import { openDefinition } from '../checks/encrypted-monitor.ts'
import type { Cipher } from '../secrets/cipher.ts'

/** `runs` and `cancel` of an answer. */
export type ToldRuns = Pick<SyncAnswer, 'runs' | 'cancel'>

/** Hands out the runs on demand of a location. */
export type HandOutRuns = (connection: Connection, ask: RunHandOut) => Promise<ToldRuns>

/** What there is to tell. */
export interface RunsToTell {
  told: ToldRuns
  /** Something of it was not told lately. */
  isNews: boolean
  /** It is being told. */
  note(): void
}

/** Who asks. */
export type RunsAsk = Pick<RunHandOut, 'locationId' | 'agentId' | 'said' | 'leaving'>

/** What was told is not told again before this. */
export const TELL_AGAIN_MS = 1_000
const REMEMBERED_MAX = 10_000

/** Runs on demand, as syncs of this process tell of them. */
export class RunNews {
  readonly #parts: { database: Database; cipher: Cipher; handOutRuns: HandOutRuns }
  /** `<agent> <run>` → until when it counts as told. */
  readonly #told = new Map<string, number>()
  readonly #members = new Map<string, { epoch: number; members: EpochMember[] }>()

  constructor(parts: { database: Database; cipher: Cipher; handOutRuns: HandOutRuns }) {
    this.#parts = parts
  }

  /** What there is to tell the agent. */
  async read(ask: RunsAsk, { epoch }: Pick<AgentStanding, 'epoch'>): Promise<RunsToTell> {
    const { database, cipher, handOutRuns } = this.#parts
    const assignment = createAssignment(await this.#membersOf(ask.locationId, epoch))
    const told = await handOutRuns(database, {
      ...ask,
      ownerOf: (monitorId, needs) => assignment.owner(monitorId, needs)?.id,
      open: (effective) => openDefinition(cipher, effective),
    })
    const keys = [
      ...told.runs.map(({ run }) => `${ask.agentId} ${run}`),
      ...told.cancel.map((run) => `${ask.agentId} cancel ${run}`),
    ]
    const now = performance.now()
    return {
      told,
      isNews: keys.some((key) => (this.#told.get(key) ?? 0) < now),
      note: () => this.#note(keys),
    }
  }

  #note(keys: readonly string[]): void {
    if (this.#told.size + keys.length > REMEMBERED_MAX) this.#told.clear()
    for (const key of keys) this.#told.set(key, performance.now() + TELL_AGAIN_MS)
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
