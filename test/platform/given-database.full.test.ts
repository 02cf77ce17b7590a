// A platform on a given database: it waits until the database answers, starts concurrently with other
// platforms, and names unusable settings.
import { connect } from 'node:net'
import { join } from 'node:path'
import { pipeline } from 'node:stream'
import { describe, expect, test } from 'vitest'
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

describe.each(DATABASE_SERVERS)('on $name', (server) => {
  const use = useDatabase(server, { migrated: false })

  test('three that start at once on an empty database serve the same account', async () => {
    const env = {
      DATABASE_URL: use().url,
      DATA_DIR: temporaryFolder(),
      ACCOUNT_ID: ACCOUNT,
      ADMIN_API_KEY: KEY,
    }
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
  const made = await createTestDatabase(undefined, { migrated: false })
  const target = new URL(made.url)
  let isOpen = false
  await using proxy = await startRawServer((socket) => {
    if (!isOpen) socket.destroy()
    else pipeline(socket, connect(Number(target.port), target.hostname), socket, () => undefined)
  })
  const waiting = startVedette(['platform'], {
    DATABASE_URL: `postgresql://vedette@${proxy.authority}${target.pathname}`,
    DATA_DIR: temporaryFolder(),
    PORT: '0',
  })
  const [, url = ''] = await waiting.line(/"url":"([^"]+)","msg":"listening"/)
  await waiting.line(/the database does not answer/)
  const readiness = await fetch(`${url}/-/readiness`)
  expect(readiness.status).toBe(503)
  expect(await readiness.text()).toContain('the database does not answer')
  const answer = await fetch(`${url}/v1/status-pages/incidents`)
  expect(answer.status).toBe(503)
  expect(await answer.json()).toMatchObject({ statusCode: 503, error: 'Service Unavailable' })
  expect((await fetch(`${url}/-/liveness`)).status).toBe(200)
  isOpen = true
  await waiting.line(/platform started/)
  expect((await fetch(`${url}/-/readiness`)).status).toBe(200)
  waiting.kill('SIGTERM')
  expect((await waiting.ended).code).toBe(0)
  await made.drop()
})

test('the start waits for a read-only database; a running platform is not ready', async () => {
  const made = await createTestDatabase(undefined, { migrated: false })
  const name = new URL(made.url).pathname.slice(1)
  const readOnly = (isOn: boolean) =>
    made.database.query(`alter database "${name}" set default_transaction_read_only = ${isOn}`)
  const endSessions = () =>
    made.database.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid()`,
    )
  await readOnly(true)
  const env = { DATABASE_URL: made.url, DATA_DIR: temporaryFolder(), PORT: '0' }
  const refused = await startVedette(['platform'], { ...env, DATABASE_WAIT_SECONDS: '0' }).ended
  expect(refused.code).toBe(1)
  expect(refused.stderr).toContain('25006')
  const platform = startVedette(['platform'], env)
  const [, url = ''] = await platform.line(/"url":"([^"]+)","msg":"listening"/)
  await platform.line(/25006/)
  await readOnly(false)
  await platform.line(/platform started/)
  const readiness = async () => {
    const { status } = await fetch(`${url}/-/readiness`)
    return status
  }
  expect(await readiness()).toBe(200)
  await readOnly(true)
  await endSessions()
  await untilHolds(async () => expect(await readiness()).toBe(503))
  await untilHolds(async () =>
    expect(await (await fetch(`${url}/-/readiness`)).text()).toContain('read-only'),
  )
  await readOnly(false)
  await endSessions()
  await untilHolds(async () => expect(await readiness()).toBe(200))
  platform.kill('SIGTERM')
  expect((await platform.ended).code).toBe(0)
  await made.drop()
})

const cannotPool = missing('pgbouncer')

describe.skipIf(cannotPool !== undefined)(`PgBouncer ${cannotPool ?? ''}`, () => {
  const start = async (mode: string) => {
    const made = await createTestDatabase(undefined, { migrated: false })
    const pooler = await startPgBouncer(made.url, mode)
    const platform = startVedette(['platform'], {
      DATABASE_URL: pooler.url,
      DATA_DIR: temporaryFolder(),
      PORT: '0',
      ACCOUNT_ID: ACCOUNT,
      ADMIN_API_KEY: KEY,
    })
    const close = async () => {
      await pooler.close()
      await made.drop()
    }
    return { platform, close }
  }

  test('with session pooling a platform works', async () => {
    const { platform, close } = await start('session')
    const [, url = ''] = await platform.line(/"url":"([^"]+)","msg":"platform started"/)
    const headers = { authorization: `Bearer ${KEY}`, 'x-service-account': ACCOUNT }
    const asked = Array.from({ length: 100 }, () => fetch(`${url}/v1/checks`, { headers }))
    const statuses = (await Promise.all(asked)).map(({ status }) => status)
    expect(new Set(statuses)).toEqual(new Set([200]))
    platform.kill('SIGTERM')
    expect((await platform.ended).code).toBe(0)
    await close()
  })

  test.each(['transaction', 'statement'])('with %s pooling the start is refused', async (mode) => {
    const { platform, close } = await start(mode)
    const ended = await platform.ended
    expect(ended.code).toBe(2)
    expect(ended.stderr).toContain('pool_mode = session')
    await close()
  })
})

const NOWHERE = { DATABASE_URL: 'postgresql://a:s3cret-value@127.0.0.1:1/a', PORT: '0' }

test('a platform that waits for its database ends on a signal', async () => {
  const waiting = startVedette(['platform'], NOWHERE)
  await waiting.line(/the database does not answer/)
  waiting.kill('SIGTERM')
  expect((await waiting.ended).code).toBe(0)
})

test.each(['backup', 'restore'])('%s waits for a database, and ends with 1', async (command) => {
  const { url, drop } = await createTestDatabase()
  const path = join(temporaryFolder(), 'vedette.backup')
  expect((await startVedette(['backup', path], { DATABASE_URL: url }).ended).code).toBe(0)
  await drop()
  const begin = performance.now()
  const { code, stderr } = await startVedette([command, path], NOWHERE).ended
  expect(performance.now() - begin).toBeGreaterThan(5_000)
  expect(code).toBe(1)
  expect(stderr).toMatch(/^vedette (backup|restore): the database does not answer: .*ECONNREFUSED/)
  expect(stderr).not.toContain('s3cret-value')
})

test('after the wait it ends with 1 and shows no password', async () => {
  const env = { ...NOWHERE, DATABASE_WAIT_SECONDS: '0' }
  const ended = await startVedette(['platform'], env).ended
  expect(ended.code).toBe(1)
  expect(ended.stderr).toMatch(/^vedette: the database does not answer: .*ECONNREFUSED/)
  expect(ended.stdout + ended.stderr).not.toContain('s3cret-value')
})

test('all problems of the settings are reported at once', async () => {
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
})

test('a port in use is named', async () => {
  await using taken = await startRawServer(() => undefined)
  const env = { ...NOWHERE, PORT: String(taken.port), HOST: '127.0.0.1' }
  const ended = await startVedette(['platform'], env).ended
  expect(ended.code).toBe(2)
  expect(ended.stderr).toContain('set PORT to a free port')
})
