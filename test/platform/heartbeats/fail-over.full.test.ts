// Aim: two platforms on one PostgreSQL, one of them killed before heartbeats are late: the other one detects each within
// 5 s of its instant, and has every acknowledged ping.
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createTestDatabase } from '../../support/database/database.ts'
import { eventually } from '../../support/eventually.ts'
import { startPlatform } from '../../support/platform/platform-process.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const HEARTBEATS = 10
const PERIOD_MS = 30_000
const DETECTED_MS_MAX = 5_000
/** The time that a killed platform leaves to the other one. */
const BEFORE_MS = 1_000

const ACCOUNT_ID = '0195fa32-6f5e-7c6f-b3a1-0a7d3e0c5d12'
const ADMIN_API_KEY = 'vk_an-admin-key-for-this-test'
/** What both platforms have; clients ask often. */
const SHARED = { ACCOUNT_ID, ADMIN_API_KEY, SECRETS_KEY: '0'.repeat(64), RATE_LIMIT: '1000000' }
const headers = {
  Authorization: `Bearer ${ADMIN_API_KEY}`,
  'X-Service-Account': ACCOUNT_ID,
  'Content-Type': 'application/json',
}

interface Event {
  state: string
  timestamp: string
  userAgent: string | null
}

test('the other platform detects lateness in time, and no acknowledged ping is lost', async () => {
  const { url: DATABASE_URL, drop } = await createTestDatabase()
  const start = () => startPlatform({ DATABASE_URL, DATA_DIR: temporaryFolder(), ...SHARED })
  const [killed, other] = await Promise.all([start(), start()])
  const ids: string[] = []
  const tokens: string[] = []
  for (let n = 0; n < HEARTBEATS; n++) {
    const heartbeat = { period: 30, periodUnit: 'seconds', grace: 0, graceUnit: 'seconds' }
    const body = JSON.stringify({ name: `job ${n}`, heartbeat })
    const made = await fetch(`${killed.url}/v1/checks/heartbeat`, { method: 'POST', headers, body })
    const check = (await made.json()) as { id: string; heartbeat: { pingToken: string } }
    ids.push(check.id)
    tokens.push(check.heartbeat.pingToken)
  }
  const eventsOf = async (id: string) => {
    const path = `/v1/checks/heartbeats/${id}/events?limit=1000`
    const [{ events }] = (await (await fetch(other.url + path, { headers })).json()) as [
      { events: Event[] },
    ]
    return events
  }
  const ping = async (n: number, name: string) => {
    const init = { headers: { 'User-Agent': name } }
    const answer = await fetch(`${killed.url}/ping/${tokens[n]}`, init).catch(() => undefined)
    return answer?.status === 200 ? [name] : []
  }

  const firstMs = Date.now()
  const acknowledged = (await Promise.all(ids.map((_, n) => ping(n, `first ${n}`)))).flat()
  expect(acknowledged).toHaveLength(HEARTBEATS)
  await sleep(firstMs + PERIOD_MS - BEFORE_MS - Date.now())
  // Half of the jobs ping once more while their platform is killed.
  const again = ids.map((_, n) => (n % 2 === 0 ? ping(n, `second ${n}`) : Promise.resolve([])))
  killed.kill('SIGKILL')
  acknowledged.push(...(await Promise.all(again)).flat())

  const late = ids.map(async (id) => {
    const isLate = async () => {
      const [newest] = await eventsOf(id)
      return newest?.state === 'FAILING' && newest
    }
    const event = await eventually(isLate, { everyMs: 200, what: 'that it is late' })
    return Date.now() - Date.parse(event.timestamp)
  })
  const delaysMs = await Promise.all(late)
  expect(Math.max(...delaysMs)).toBeLessThan(DETECTED_MS_MAX)
  const events = (await Promise.all(ids.map(eventsOf))).flat()
  const stored = new Set(events.map(({ userAgent }) => userAgent))
  expect(acknowledged.filter((name) => !stored.has(name))).toEqual([])
  other.kill('SIGTERM')
  await Promise.all([killed.ended, other.ended])
  await drop()
}, 120_000)
