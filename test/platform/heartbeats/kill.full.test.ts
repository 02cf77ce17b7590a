// Aim: kill -9 of a platform in the middle of pings: every acknowledged one is stored, once; lateness is detected
// after the restart.
import { expect, test } from 'vitest'
import { eventually } from '../../support/eventually.ts'
import { startPlatform } from '../../support/platform/platform-process.ts'
import { storedCredentials } from '../../support/platform/written-incidents.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const KILLS = 10
const HEARTBEATS = 20

test('no acknowledged ping is lost, and none is there twice', { timeout: 300_000 }, async () => {
  const env = { DATA_DIR: temporaryFolder() }
  let platform = await startPlatform(env)
  const { accountId, adminApiKey } = storedCredentials(env.DATA_DIR)
  const headers = {
    Authorization: `Bearer ${adminApiKey}`,
    'X-Service-Account': accountId,
    'Content-Type': 'application/json',
  }
  const call = async (path: string, body?: object) => {
    const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
    const answer = await fetch(`${platform.url}${path}`, { ...init, headers })
    return (await answer.json()) as Record<string, never>
  }
  const heartbeat = { period: 30, periodUnit: 'seconds', grace: 0, graceUnit: 'seconds' }
  const checks: { id: string; heartbeat: { pingToken: string } }[] = []
  for (let n = 0; n < HEARTBEATS; n++)
    checks.push((await call('/v1/checks/heartbeat', { name: `job ${n}`, heartbeat })) as never)
  const acknowledged: string[] = []
  for (let kill = 0; kill < KILLS; kill++) {
    let isKilled = false
    const pinging = checks.map(async ({ heartbeat: { pingToken } }, n) => {
      for (let count = 0; !isKilled && count < 10; count++) {
        const ping = `${kill}/${n}/${count}`
        const init = { method: 'POST', headers: { 'User-Agent': ping } }
        const answer = await fetch(`${platform.url}/ping/${pingToken}`, init).catch(() => undefined)
        if (answer?.status === 200) acknowledged.push(ping)
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
  const stored: string[] = []
  for (const { id } of checks) {
    const path = `/v1/checks/heartbeats/${id}/events?limit=1000`
    const [{ events }] = (await call(path)) as unknown as [
      { events: { userAgent: string | null }[] },
    ]
    stored.push(...events.flatMap(({ userAgent }) => userAgent ?? []))
  }
  expect(acknowledged.length).toBeGreaterThan(KILLS * HEARTBEATS)
  expect(acknowledged.filter((ping) => !stored.includes(ping))).toEqual([])
  expect(new Set(stored).size).toBe(stored.length)
  const states = async () => {
    const [{ events }] = (await call(
      `/v1/checks/heartbeats/${checks[0]?.id}/events`,
    )) as unknown as [{ events: { state: string; timestamp: string }[] }]
    return events
  }
  await eventually(async () => (await states())[0]?.state === 'FAILING')
  const [late, last] = await states()
  const waitedMs = Date.parse(late?.timestamp ?? '') - Date.parse(last?.timestamp ?? '')
  expect([waitedMs > 0, waitedMs % 30_000]).toEqual([true, 0])
  platform.kill('SIGTERM')
  await platform.ended
})
