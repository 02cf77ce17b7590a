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

/** A simulated location; `syncAll` tells every live agent the changes that it does not know yet. */
function startHistory(location: TestLocation, random: Random) {
  const live: FakeAgent[] = []
  const gone: FakeAgent[] = []
  const left = new Set<FakeAgent>()
  const any = <T>(list: readonly T[]) => list[random.below(list.length)] as T

  const join = async () => {
    const back = random.below(100) < 40 ? gone.pop() : undefined
    const one = back ?? new FakeAgent(location.secret)
    // It may have been restarted meanwhile, or only been cut off.
    if (back !== undefined && (left.delete(back) || random.below(2) === 0)) back.restart()
    live.push(one)
    await one.sync(any(apis))
    return back === undefined ? 'join' : 'rejoin'
  }
  const lose = async (one: FakeAgent) => {
    const { database } = use()
    await beatPulse(database)
    await database.query(`update platform_pulse set since = now() - interval '1 hour'`)
    await database.query(
      `update agents set last_seen_at = last_seen_at - interval '1 hour'
       where location_id = $1 and id = $2`,
      [location.id, one.facts.id],
    )
    await any(apis).agentRegistry.loseUnresponsive(location.id)
  }
  const step = async () => {
    const dice = random.below(100)
    if (live.length === 0 || (dice < 35 && live.length < 6)) return join()
    const one = any(live)
    if (dice < 70) {
      await (dice < 50 ? one.leave(any(apis)) : lose(one))
      if (dice < 50) left.add(one)
      gone.push(...live.splice(live.indexOf(one), 1))
      return dice < 50 ? 'leave' : 'lost'
    }
    if (dice < 80) {
      one.restart()
      one.monitors.clear()
    }
    await one.sync(any(apis))
    return dice < 80 ? 'restart' : 'sync'
  }
  const syncAll = async () => {
    for (const one of live) await one.sync(any(apis))
  }
  return { live, step, syncAll }
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
  const monitors = Array.from({ length: 25 }, () => ({}))
  const ids = await placeMonitors(where, location, monitors)
  const history = startHistory(location, randomFrom(seed))
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
