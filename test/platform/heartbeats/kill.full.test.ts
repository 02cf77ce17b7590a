// Aim: kill -9 of a platform in the middle of pings: every acknowledged one is stored, once. Lateness is detected
// after the restart, and by another platform on the same PostgreSQL within 5 s of its instant.
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createTestDatabase } from '../../support/database/database.ts'
import { eventually } from '../../support/eventually.ts'
import { startPlatform } from '../../support/platform/platform-process.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const PERIOD_MS = 30_000
const ACCOUNT_ID = '0195fa32-6f5e-7c6f-b3a1-0a7d3e0c5d12'
const ADMIN_API_KEY = 'vk_an-admin-key-for-this-test'
/** What all platforms have; clients ask often. */
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

interface Job {
  id: string
  heartbeat: { pingToken: string }
}

async function addJobs(url: string, count: number): Promise<Job[]> {
  const heartbeat = { period: 30, periodUnit: 'seconds', grace: 0, graceUnit: 'seconds' }
  const jobs: Job[] = []
  for (let n = 0; n < count; n++) {
    const body = JSON.stringify({ name: `job ${n}`, heartbeat })
    const made = await fetch(`${url}/v1/checks/heartbeat`, { method: 'POST', headers, body })
    jobs.push((await made.json()) as Job)
  }
  return jobs
}

/** Whether the ping was acknowledged. */
async function ping(url: string, { heartbeat }: Job, name: string): Promise<boolean> {
  const init = { method: 'POST', headers: { 'User-Agent': name } }
  const answer = await fetch(`${url}/ping/${heartbeat.pingToken}`, init).catch(() => undefined)
  return answer?.status === 200
}

/** Newest first. */
async function eventsOf(url: string, { id }: Job): Promise<Event[]> {
  const answer = await fetch(`${url}/v1/checks/heartbeats/${id}/events?limit=1000`, { headers })
  const [{ events }] = (await answer.json()) as [{ events: Event[] }]
  return events
}

/** The first event of its lateness. */
const lateness = (url: string, job: Job) =>
  eventually(
    async () => {
      const [newest] = await eventsOf(url, job)
      return newest?.state === 'FAILING' && newest
    },
    { everyMs: 200, what: 'that it is late' },
  )

/** Pings of all jobs that are stored, by name. */
async function storedPings(url: string, jobs: Job[]): Promise<string[]> {
  const events = (await Promise.all(jobs.map((job) => eventsOf(url, job)))).flat()
  return events.flatMap(({ userAgent }) => userAgent ?? [])
}

const KILLS = 10
const HEARTBEATS = 20

test('no acknowledged ping is lost, and none is there twice', { timeout: 300_000 }, async () => {
  const env = { DATA_DIR: temporaryFolder(), ...SHARED }
  let platform = await startPlatform(env)
  const jobs = await addJobs(platform.url, HEARTBEATS)
  const acknowledged: string[] = []
  for (let kill = 0; kill < KILLS; kill++) {
    let isKilled = false
    const pinging = jobs.map(async (job, n) => {
      for (let count = 0; !isKilled && count < 10; count++) {
        const name = `${kill}/${n}/${count}`
        if (await ping(platform.url, job, name)) acknowledged.push(name)
        if (acknowledged.length >= (kill + 1) * (HEARTBEATS + kill) && !isKilled) {
          isKilled = true
          platform.kill('SIGKILL')
        }
      }
    })
    await Promise.all(pinging)
    if (!isKilled) platform.kill('SIGKILL')
    await platform.ended
    platform = await startPlatform(env)
  }
  const stored = await storedPings(platform.url, jobs)
  expect(acknowledged.length).toBeGreaterThan(KILLS * HEARTBEATS)
  expect(acknowledged.filter((name) => !stored.includes(name))).toEqual([])
  expect(new Set(stored).size).toBe(stored.length)
  const [first] = jobs as [Job]
  const late = await lateness(platform.url, first)
  const [, last] = await eventsOf(platform.url, first)
  const waitedMs = Date.parse(late.timestamp) - Date.parse(last?.timestamp ?? '')
  expect([waitedMs > 0, waitedMs % PERIOD_MS]).toEqual([true, 0])
  platform.kill('SIGTERM')
  await platform.ended
})

test('another platform detects lateness in time, and no acknowledged ping is lost', async () => {
  const { url: DATABASE_URL, drop } = await createTestDatabase()
  const start = () => startPlatform({ DATABASE_URL, DATA_DIR: temporaryFolder(), ...SHARED })
  const [killed, other] = await Promise.all([start(), start()])
  const jobs = await addJobs(killed.url, 10)
  const pingAll = async (some: Job[], name: string) => {
    const names = some.map(({ id }) => `${name} ${id}`)
    const outcomes = await Promise.all(some.map((job, n) => ping(killed.url, job, names[n] ?? '')))
    return names.filter((_, n) => outcomes[n])
  }

  const firstMs = Date.now()
  const acknowledged = await pingAll(jobs, 'first')
  expect(acknowledged).toHaveLength(jobs.length)
  // The killed platform leaves a second to the other one.
  await sleep(firstMs + PERIOD_MS - 1000 - Date.now())
  // Half of the jobs ping once more while their platform is killed.
  const again = pingAll(
    jobs.filter((_, n) => n % 2 === 0),
    'second',
  )
  killed.kill('SIGKILL')
  acknowledged.push(...(await again))

  const delaysMs = jobs.map(async (job) => {
    const { timestamp } = await lateness(other.url, job)
    return Date.now() - Date.parse(timestamp)
  })
  expect(Math.max(...(await Promise.all(delaysMs)))).toBeLessThan(5_000)
  const stored = await storedPings(other.url, jobs)
  expect(acknowledged.filter((name) => !stored.includes(name))).toEqual([])
  other.kill('SIGTERM')
  await Promise.all([killed.ended, other.ended])
  await drop()
}, 120_000)
