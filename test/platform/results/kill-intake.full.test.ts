// Aim: kill -9 of a platform in the middle of batches, again and again, loses no acknowledged result, records
// none twice, and the account comes out even once agents have delivered the rest and the sweep has passed.
import { randomUUID } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import type { ResultsAnswer, WireResult } from '../../../src/contract/protocol/agent-protocol.ts'
import { sweep } from '../../../src/platform/results/sweep.ts'
import { accountOf } from '../../../src/platform/results/queries/accounting.ts'
import { DATABASE_SERVERS, useDatabase } from '../../support/database/database.ts'
import { postWithKey } from '../../support/platform/fake-agent.ts'
import { addLocation } from '../../support/platform/locations.ts'
import { addMonitor, resultAt } from '../../support/platform/placed-monitors.ts'
import { startPlatform } from '../../support/platform/platform-process.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const KILLS = 8
const MONITORS = 40
const SLOTS = 300
const BATCH = 150
const SENDERS = 4

describe.each(DATABASE_SERVERS)('on $name', (server) => {
  const use = useDatabase(server)

  test(`${KILLS} times`, { timeout: 600_000 }, async () => {
    const { database, url: databaseUrl } = use()
    const fromMs = Date.now() - 3_600_000
    const here = await addLocation(database)
    const results: WireResult[] = []
    for (let n = 0; n < MONITORS; n++) {
      const one = await addMonitor(database, here, { fromMs, offsetMs: 7 * n })
      // Some are never reported: the sweep must find them.
      for (let slot = 0; slot < SLOTS; slot++) {
        if ((slot + n) % 10 > 0) results.push(resultAt(one, slot))
      }
    }
    const waiting: WireResult[][] = []
    for (let at = 0; at < results.length; at += BATCH) waiting.push(results.slice(at, at + BATCH))
    const env = { DATABASE_URL: databaseUrl, DATA_DIR: temporaryFolder() }
    const counts = { recorded: 0, known: 0, refused: 0, unanswered: 0 }
    for (let round = 0; round <= KILLS; round++) {
      const platform = await startPlatform(env)
      let isDead = false
      const left = round === KILLS ? Infinity : 1 + Math.floor(waiting.length / (KILLS - round + 1))
      let answered = 0
      const sender = async () => {
        for (let batch = waiting.shift(); batch !== undefined; batch = waiting.shift()) {
          const answer = await post(platform.url, here.secret, batch)
          if (answer === undefined) {
            counts.unanswered++
            waiting.push(batch)
          } else {
            counts.recorded += answer.recorded
            counts.known += answer.known
            counts.refused += answer.refused.length
            if (++answered === left) platform.kill('SIGKILL')
          }
          if (answered >= left) isDead = true
          if (isDead) return
        }
      }
      await Promise.all(Array.from({ length: SENDERS }, sender))
      platform.kill(round === KILLS ? 'SIGTERM' : 'SIGKILL')
      await platform.ended
    }
    expect(counts.refused).toBe(0)
    expect(counts.recorded + counts.known).toBe(results.length)
    // Recorded results without an acknowledgement were known when they were sent again.
    const [rows] = await database.query<{ n: number }>(
      `select count(*)::int as n from results where not filled and location_id = $1`,
      [here.id],
    )
    expect(rows?.n).toBe(results.length)
    await database.query('truncate platform_pulse')
    const parts = { database, now: Date.now, retentionMs: 30 * 86_400_000 }
    const swept = await sweep(parts, AbortSignal.timeout(60_000))
    const { locations } = await accountOf(database, { fromMs: 0, toMs: swept.sweptUntilMs })
    const expected = locations[0]?.expected ?? 0
    expect(expected).toBeGreaterThan(MONITORS * SLOTS)
    expect(locations).toMatchObject([
      {
        recorded: expected,
        missing: 0,
        unexpected: 0,
        byVerdict: { passed: results.length, missed: expected - results.length },
      },
    ])
    expect(counts.unanswered).toBeGreaterThan(0)
  })
})

/** The answer, or undefined. */
async function post(url: string, secret: string, results: WireResult[]) {
  const raw = gzipSync(JSON.stringify({ agentId: randomUUID(), results }))
  const headers = { 'content-encoding': 'gzip' }
  const end = { url, check: () => {} }
  const sent = postWithKey(end, '/agent/v1/results', { secret, raw, headers })
  const answer = await sent.catch(() => undefined)
  return answer?.status === 200 ? (answer.body as ResultsAnswer) : undefined
}
