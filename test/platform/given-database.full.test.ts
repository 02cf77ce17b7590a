// A platform on a given database waits until that answers, starts with others, and names unusable settings.
import { connect } from 'node:net'
import { join } from 'node:path'
import { pipeline } from 'node:stream'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createTestDatabase, DATABASE_SERVERS, useDatabase } from '../support/database/database.ts'
import { untilHolds } from '../support/eventually.ts'
import { missing } from '../support/needs.ts'
import { startPgBouncer } from '../support/database/pgbouncer.ts'
import { startPlatform, startVedette } from '../support/platform/platform-process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { startRawServer } from '../support/test-server.ts'
import { createIncident, createService, listNames } from '../support/platform/written-incidents.ts'

const KEY = 'a-key-that-was-given-by-somebody'
const ACCOUNT = '0195fa32-6f5e-7c6f-b3a1-0a7d3e0c5d11'
const GIVEN = { ACCOUNT_ID: ACCOUNT, ADMIN_API_KEY: KEY }
/** An empty database until the end of the test. */
const emptyDatabase = async () => {
  const made = await createTestDatabase(undefined, { migrated: false })
  onTestFinished(made.drop)
  return made
}
/** Starts a platform that may wait for its database; resolves when it listens. */
const startWaiting = async (DATABASE_URL: string) => {
  const env = { DATABASE_URL, DATA_DIR: temporaryFolder(), PORT: '0' }
  const platform = startVedette(['platform'], env)
  const [, url = ''] = await platform.line(/"url":"([^"]+)","msg":"listening"/)
  const readiness = async () => {
    const answer = await fetch(`${url}/-/readiness`)
    return { status: answer.status, text: await answer.text() }
  }
  return { platform, url, readiness }
}

describe.each(DATABASE_SERVERS)('on $name', (server) => {
  const use = useDatabase(server, { migrated: false })

  test('three that start at once on an empty database serve the same account', async () => {
    const env = { DATABASE_URL: use().url, DATA_DIR: temporaryFolder(), ...GIVEN }
    const platforms = await Promise.all([1, 2, 3].map(() => startPlatform(env)))
    const writer = { accountId: ACCOUNT, adminApiKey: KEY }
    const [first, second, third] = platforms.map(({ url }) => url) as [string, string, string]
    const serviceId = await createService(first, writer)
    expect(await createIncident(second, writer, { name: 'seen by all', serviceId })).toBe(201)
    expect((await listNames(third, writer)).counts).toEqual(new Map([['seen by all', 1]]))
    for (const one of platforms) one.kill('SIGTERM')
    for (const one of platforms) {
      const ended = await one.ended
      expect(ended).toMatchObject({ code: 0, stderr: '' })
      expect(ended.stdout).not.toContain(KEY)
    }
  })
})

test('the platform answers 503 until its database answers', async () => {
  const target = new URL((await emptyDatabase()).url)
  let isOpen = false
  await using proxy = await startRawServer((socket) => {
    if (!isOpen) socket.destroy()
    else pipeline(socket, connect(Number(target.port), target.hostname), socket, () => undefined)
  })
  const address = `postgresql://vedette@${proxy.authority}${target.pathname}`
  const { platform, url, readiness } = await startWaiting(address)
  await platform.line(/the database does not answer/)
  const text = expect.stringContaining('the database does not answer') as string
  expect(await readiness()).toEqual({ status: 503, text })
  const answer = await fetch(`${url}/v1/status-pages/incidents`)
  expect(answer.status).toBe(503)
  expect(await answer.json()).toMatchObject({ statusCode: 503, error: 'Service Unavailable' })
  expect((await fetch(`${url}/-/liveness`)).status).toBe(200)
  isOpen = true
  await platform.line(/platform started/)
  expect((await readiness()).status).toBe(200)
  platform.kill('SIGTERM')
  expect((await platform.ended).code).toBe(0)
})

test('the start waits for a read-only database; a running platform is not ready', async () => {
  const { name, url, database } = await emptyDatabase()
  const readOnly = (isOn: boolean) =>
    database.query(`alter database "${name}" set default_transaction_read_only = ${isOn}`)
  const endSessions = () =>
    database.query(`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()`)
  await readOnly(true)
  const env = { DATABASE_URL: url, DATA_DIR: temporaryFolder(), PORT: '0' }
  const refused = await startVedette(['platform'], { ...env, DATABASE_WAIT_SECONDS: '0' }).ended
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('25006')])
  const { platform, readiness } = await startWaiting(url)
  await platform.line(/25006/)
  await readOnly(false)
  await platform.line(/platform started/)
  expect((await readiness()).status).toBe(200)
  await readOnly(true)
  await endSessions()
  const text = expect.stringContaining('read-only') as string
  await untilHolds(async () => expect(await readiness()).toEqual({ status: 503, text }))
  await readOnly(false)
  await endSessions()
  await untilHolds(async () => expect((await readiness()).status).toBe(200))
  platform.kill('SIGTERM')
  expect((await platform.ended).code).toBe(0)
})

const cannotPool = missing('pgbouncer')

describe.skipIf(cannotPool !== undefined)(`PgBouncer ${cannotPool ?? ''}`, () => {
  const start = async (mode: string) => {
    const DATABASE_URL = await startPgBouncer((await emptyDatabase()).url, mode)
    const env = { DATABASE_URL, DATA_DIR: temporaryFolder(), PORT: '0', ...GIVEN }
    return startVedette(['platform'], env)
  }

  test('with session pooling a platform works', async () => {
    const platform = await start('session')
    const [, url = ''] = await platform.line(/"url":"([^"]+)","msg":"platform started"/)
    const headers = { authorization: `Bearer ${KEY}`, 'x-service-account': ACCOUNT }
    const asked = Array.from({ length: 100 }, () => fetch(`${url}/v1/checks`, { headers }))
    const statuses = (await Promise.all(asked)).map(({ status }) => status)
    expect(new Set(statuses)).toEqual(new Set([200]))
    platform.kill('SIGTERM')
    expect((await platform.ended).code).toBe(0)
  })

  test.each(['transaction', 'statement'])('with %s pooling the start is refused', async (mode) => {
    const { code, stderr } = await (await start(mode)).ended
    expect([code, stderr]).toEqual([2, expect.stringContaining('pool_mode = session')])
  })
})

const NOWHERE = { DATABASE_URL: 'postgresql://a:s3cret-value@127.0.0.1:1/a', PORT: '0' }

test('a platform that waits for its database ends on a signal', async () => {
  const waiting = startVedette(['platform'], NOWHERE)
  await waiting.line(/the database does not answer/)
  waiting.kill('SIGTERM')
  expect((await waiting.ended).code).toBe(0)
})

test.each([
  ['backup', 5_000],
  ['restore', 5_000],
  ['platform', 0],
])('%s waits for a database, ends with 1, and shows no password', async (command, waitsMs) => {
  const { url, drop } = await createTestDatabase()
  const path = join(temporaryFolder(), 'vedette.backup')
  expect((await startVedette(['backup', path], { DATABASE_URL: url }).ended).code).toBe(0)
  await drop()
  const begin = performance.now()
  const [args, env] = command === 'platform' ? [[], { DATABASE_WAIT_SECONDS: '0' }] : [[path], {}]
  const ended = await startVedette([command, ...args], { ...NOWHERE, ...env }).ended
  expect(performance.now() - begin).toBeGreaterThan(waitsMs)
  expect(ended.code).toBe(1)
  expect(ended.stderr).toMatch(/^vedette.*: the database does not answer: .*ECONNREFUSED/)
  expect(ended.stdout + ended.stderr).not.toContain('s3cret-value')
})

test('all problems of the settings are reported at once, and a port in use is named', async () => {
  const env = {
    DATABASE_URL: 'mysql://a:s3cret-value@b/c',
    PORT: '99999',
    ADMIN_API_KEY: 'short',
    ACCOUNT_ID: 'me',
    TRUSTED_PROXIES: '10.0.0.0/8, nonsense',
    LOG_LEVEL: 'loud',
  }
  const ended = await startVedette(['platform'], env).ended
  expect(ended).toMatchObject({ code: 2, stdout: '' })
  for (const name of Object.keys(env)) expect(ended.stderr).toContain(`  ${name} is `)
  expect(ended.stderr).toContain('6 problems')
  expect(ended.stderr).not.toMatch(/s3cret-value|short/)
  await using taken = await startRawServer(() => undefined)
  const inUse = { ...NOWHERE, PORT: String(taken.port), HOST: '127.0.0.1' }
  const { code, stderr } = await startVedette(['platform'], inUse).ended
  expect([code, stderr]).toEqual([2, expect.stringContaining('set PORT to a free port')])
})
