// Aim: through any history of agents that join, leave, time out and return, every monitor has exactly
// one owner at every instant, whichever process an agent calls and however rarely it does.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { PROTOCOL_BOUNDS } from '../../../src/contract/protocol/agent-protocol.ts'
import { beatPulse } from '../../../src/platform/agents/queries/agents.ts'
import { startAgentsApi, TEST_CIPHER, type AgentsApi } from '../../support/platform/agents-api.ts'
import { useDatabase } from '../../support/database/database.ts'
import { FakeAgent } from '../../support/platform/fake-agent.ts'
import { addLocation, placeMonitors, type TestLocation } from '../../support/platform/locations.ts'
import { type Random, randomFrom } from '../../support/random.ts'

const use = useDatabase()
let apis: [AgentsApi, AgentsApi]
beforeAll(async () => {
  apis = [await startAgentsApi(use()), await startAgentsApi(use())]
})
afterAll(() => Promise.all(apis.map((api) => api.close())))

/** A simulated location. */
class History {
  readonly live: FakeAgent[] = []
  readonly gone: FakeAgent[] = []
  readonly #left = new Set<FakeAgent>()
  readonly #location: TestLocation
  readonly #random: Random

  constructor(location: TestLocation, random: Random) {
    this.#location = location
    this.#random = random
  }

  #any<T>(list: readonly T[]): T {
    return list[this.#random.below(list.length)] as T
  }

  get #api(): AgentsApi {
    return this.#any(apis)
  }

  async step(): Promise<string> {
    const dice = this.#random.below(100)
    if (this.live.length === 0 || (dice < 35 && this.live.length < 6)) return this.#join()
    const one = this.#any(this.live)
    if (dice < 50) {
      await one.leave(this.#api)
      this.#remove(one)
      this.#left.add(one)
      return 'leave'
    }
    if (dice < 70) return this.#lose(one)
    if (dice < 80) {
      one.restart()
      one.monitors.clear()
      await one.sync(this.#api)
      return 'restart'
    }
    await one.sync(this.#api)
    return 'sync'
  }

  async #join(): Promise<string> {
    const back = this.#random.below(100) < 40 ? this.gone.pop() : undefined
    const one = back ?? new FakeAgent(this.#location.secret)
    // It may have been restarted meanwhile, or only been cut off.
    if (back !== undefined && (this.#left.delete(back) || this.#random.below(2) === 0))
      back.restart()
    this.live.push(one)
    await one.sync(this.#api)
    return back === undefined ? 'join' : 'rejoin'
  }

  async #lose(one: FakeAgent): Promise<string> {
    const { database } = use()
    await beatPulse(database)
    await database.query(`update platform_pulse set since = now() - interval '1 hour'`)
    await database.query(
      `update agents set last_seen_at = last_seen_at - interval '1 hour'
       where location_id = $1 and id = $2`,
      [this.#location.id, one.facts.id],
    )
    await this.#api.agentRegistry.loseUnresponsive(this.#location.id)
    this.#remove(one)
    return 'lost'
  }

  #remove(one: FakeAgent): void {
    this.live.splice(this.live.indexOf(one), 1)
    this.gone.push(one)
  }

  /** Every live agent syncs the changes that it does not know yet. */
  async syncAll(): Promise<void> {
    for (const one of this.live) await one.sync(this.#api)
  }
}

/** The agents that own the slot of the monitor at `instant`. */
function ownersAt(agents: readonly FakeAgent[], id: string, instant: number): FakeAgent[] {
  return agents.filter((one) =>
    one.spans.get(id)?.some(({ from, until }) => from <= instant && instant < until),
  )
}

test.each([1, 2, 3, 4])('history %i', async (seed) => {
  const location = await addLocation(use().database)
  const where = { database: use().database, cipher: TEST_CIPHER }
  const ids = await placeMonitors(
    where,
    location,
    Array.from({ length: 25 }, () => ({})),
  )
  const history = new History(location, randomFrom(seed))
  const happened: string[] = []
  for (let step = 0; step < 30; step++) {
    happened.push(await history.step())
    // Usually some have not received it before the next event.
    if (step % 3 !== 0) continue
    await history.syncAll()
    const now = Date.now()
    const expected = history.live.length === 0 ? 0 : 1
    const { handOverMs } = PROTOCOL_BOUNDS
    for (const ahead of [10, handOverMs / 2, handOverMs + 50, 1e6]) {
      const counts = ids.map((id) => ownersAt(history.live, id, now + ahead).length)
      const wrong = counts.filter((count) => count !== expected)
      expect(wrong, `${ahead} ms after ${happened.join(', ')}`).toEqual([])
    }
  }
})
