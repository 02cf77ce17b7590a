// A platform with its own PostgreSQL, as real processes: its start, its end, and kills of one of the two.
import { execFileSync, spawn } from 'node:child_process'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import * as processes from '../support/platform/platform-process.ts'
import { mountSmallDisk } from '../support/small-disk.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import * as incidents from '../support/platform/written-incidents.ts'
import { untilHolds } from '../support/eventually.ts'

const { childrenOf, commandLine, processesWith, startPlatform, startVedette } = processes
const { createIncident, createService, storedCredentials, listNames } = incidents

// Real processes, each with a start of its own, on machines that may be busy with other things.
vi.setConfig({ testTimeout: 120_000 })

/** Starts a platform until the end of the test. */
async function start(dataDir: string, env: Record<string, string> = {}) {
  const platform = await startPlatform({ DATA_DIR: dataDir, RATE_LIMIT: '1000000', ...env })
  onTestFinished(async () => {
    platform.kill('SIGKILL')
    await platform.ended
  })
  return platform
}

/** Starts one that is expected to end. */
const startRefused = (dataDir: string) =>
  startVedette(['platform'], { DATA_DIR: dataDir, PORT: '0' }).ended

/** Number of the main process of PostgreSQL on this folder. */
const postmaster = (dataDir: string) =>
  Number.parseInt(fs.readFileSync(join(dataDir, 'postgres/data/postmaster.pid'), 'utf8'), 10)

const postgresOn = (dataDir: string) => processesWith('-D', join(dataDir, 'postgres/data'))

const READY = { status: 200, reasons: [] }

async function readiness(url: string): Promise<{ status: number; reasons: string[] }> {
  const answer = await fetch(`${url}/-/readiness`)
  const { reasons } = (await answer.json()) as { reasons: string[] }
  return { status: answer.status, reasons }
}

test('the first start makes an account and a key, shows them once, and stores them for the owner', async () => {
  // A folder below one that no other user may enter will do, also for root.
  const closed = temporaryFolder()
  fs.chmodSync(closed, 0o700)
  const dataDir = join(closed, 'data')
  const platform = await start(dataDir)
  expect(await readiness(platform.url)).toEqual(READY)
  const stored = storedCredentials(dataDir)
  for (const value of Object.values(stored)) expect(platform.stdout).toContain(value)
  expect(fs.statSync(join(dataDir, 'credentials.json')).mode & 0o777).toBe(0o600)
  expect(await listNames(platform.url, stored)).toMatchObject({ counts: new Map() })
  platform.kill('SIGTERM')
  expect(await platform.ended).toMatchObject({ code: 0, stderr: '' })
  const again = await start(dataDir)
  expect(again.stdout).not.toContain(stored.adminApiKey)
  expect(storedCredentials(dataDir)).toEqual(stored)
  expect(await listNames(again.url, stored)).toMatchObject({ counts: new Map() })
})

describe('the folder', () => {
  const dataDir = temporaryFolder()

  test('serves one platform; a second is refused with what to do', async () => {
    const platform = await start(dataDir)
    const inUse = new RegExp(`is in use: locked by process ${platform.pid} on .* DATABASE_URL\n$`)
    const { code, stderr } = await startRefused(dataDir)
    expect([code, stderr]).toEqual([2, expect.stringMatching(inUse)])
    expect(await readiness(platform.url)).toEqual(READY)
  })

  test('of another major version is refused and not changed', async () => {
    const file = join(dataDir, 'postgres/data/PG_VERSION')
    const version = fs.readFileSync(file, 'utf8')
    fs.writeFileSync(file, '14\n')
    const { code, stderr } = await startRefused(dataDir)
    expect([code, stderr]).toEqual([2, expect.stringContaining('PostgreSQL 14')])
    fs.writeFileSync(file, version)
    expect(await readiness((await start(dataDir)).url)).toEqual(READY)
  })

  test('is used although unrelated processes have the ids of dead ones in its files', async () => {
    const first = await start(dataDir)
    first.kill('SIGTERM')
    await first.ended
    const root = join(dataDir, 'postgres')
    const { uid, gid } = fs.statSync(root)
    const isRoot = process.getuid?.() === 0
    const ids = isRoot ? { uid, gid } : {}
    const stranger = spawn('sleep', ['600'], { ...ids, stdio: 'ignore' })
    for (const name of ['data/postmaster.pid', 'run/.s.PGSQL.5432.lock']) {
      fs.writeFileSync(join(root, name), `${stranger.pid}\n${join(root, 'data')}\n`)
      if (isRoot) fs.chownSync(join(root, name), uid, gid)
    }
    expect(await readiness((await start(dataDir)).url)).toEqual(READY)
    expect(stranger.kill()).toBe(true)
  })

  test('that a killed first start left incomplete is created again', async () => {
    const fresh = temporaryFolder()
    const killed = startVedette(['platform'], { DATA_DIR: fresh, PORT: '0' })
    const parts = () => fs.readdirSync(join(fresh, 'postgres')).join(' ')
    await untilHolds(() => expect(parts()).toContain('data-draft-'))
    killed.kill('SIGKILL')
    await killed.ended
    expect(fs.existsSync(join(fresh, 'postgres/data'))).toBe(false)
    expect(await readiness((await start(fresh)).url)).toEqual(READY)
  })
})

describe('on SIGTERM', () => {
  const dataDir = temporaryFolder()

  test('it ends with 0, PostgreSQL is shut down cleanly, and no process is left', async () => {
    const platform = await start(dataDir)
    expect(postgresOn(dataDir).length).toBeGreaterThan(0)
    platform.kill('SIGTERM')
    expect((await platform.ended).code).toBe(0)
    expect(postgresOn(dataDir)).toEqual([])
    expect(fs.existsSync(join(dataDir, 'postgres.lock'))).toBe(false)
    const next = await start(dataDir, { LOG_LEVEL: 'DEBUG' })
    expect(next.stdout).toContain('database system was shut down at')
    expect(next.stdout).not.toContain('not properly shut down')
  })

  test('it is not ready at once, still answers, and ends', async () => {
    const platform = await start(dataDir, { DRAIN_DELAY_SECONDS: '1' })
    platform.kill('SIGTERM')
    await platform.line(/stop signal received/)
    const reasons = ['the platform is stopping']
    expect(await readiness(platform.url)).toEqual({ status: 503, reasons })
    expect((await fetch(`${platform.url}/-/liveness`)).status).toBe(200)
    expect((await listNames(platform.url, storedCredentials(dataDir))).counts.size).toBe(0)
    expect((await platform.ended).code).toBe(0)
  })

  test('twice, it ends at once and leaves no PostgreSQL behind', async () => {
    const platform = await start(dataDir, { DRAIN_DELAY_SECONDS: '60' })
    platform.kill('SIGTERM')
    await platform.line(/stop signal received/)
    platform.kill('SIGTERM')
    expect((await platform.ended).code).toBe(143)
    await untilHolds(() => expect(postgresOn(dataDir)).toEqual([]))
  })
})

describe('kill -9', () => {
  const dataDir = temporaryFolder()

  test('of PostgreSQL: 503 until it is restarted, and nothing is lost', async () => {
    const platform = await start(dataDir)
    const writer = storedCredentials(dataDir)
    const serviceId = await createService(platform.url, writer)
    const acknowledged: string[] = []
    const statuses = new Set<number | undefined>()
    let count = 0
    const write = async () => {
      const name = `incident ${count++}`
      const status = await createIncident(platform.url, writer, { name, serviceId })
      statuses.add(status)
      if (status === 201) acknowledged.push(name)
      return status
    }
    const starts = () => platform.stdout.split('PostgreSQL is running again').length - 1
    const reasons = new Set<string>()
    for (let round = 0; round < 3; round++) {
      await untilHolds(async () => expect(await write()).toBe(201))
      process.kill(postmaster(dataDir), 'SIGKILL')
      // Sessions of the killed one may still answer for a moment.
      while (starts() === round) {
        await write()
        for (const reason of (await readiness(platform.url)).reasons) reasons.add(reason)
      }
    }
    await untilHolds(async () => expect(await readiness(platform.url)).toEqual(READY))
    expect([...reasons].join('\n')).toMatch(/^the database (?:does not answer|has not answered)/)
    expect(statuses).toEqual(new Set([201, 503]))
    const { counts } = await listNames(platform.url, writer)
    expect(acknowledged.filter((name) => counts.get(name) !== 1)).toEqual([])
    const metrics = await (await fetch(`${platform.metricsUrl}/metrics`)).text()
    expect(metrics).toContain('vedette_embedded_postgres_restarts 3\n')
  })

  test('of the platform: PostgreSQL ends by itself; without its watcher the next start ends it', async () => {
    const killed = await start(dataDir)
    killed.kill('SIGKILL')
    await killed.ended
    await untilHolds(() => expect(postgresOn(dataDir)).toEqual([]))
    const platform = await start(dataDir)
    const left = postmaster(dataDir)
    const watcher = childrenOf(left).find((pid) => commandLine(pid)[0] === '/bin/sh')
    process.kill(watcher ?? -1, 'SIGKILL')
    platform.kill('SIGKILL')
    await platform.ended
    const next = await start(dataDir)
    expect(next.stdout).toContain('from an earlier run')
    expect(postmaster(dataDir)).not.toBe(left)
    expect(postgresOn(dataDir)).not.toContain(left)
    expect(await readiness(next.url)).toEqual(READY)
  })
})

test('a backup is made while it runs, and restored into another folder', async () => {
  const own = { DATA_DIR: temporaryFolder() }
  const platform = await start(own.DATA_DIR)
  const writer = storedCredentials(own.DATA_DIR)
  const serviceId = await createService(platform.url, writer)
  expect(await createIncident(platform.url, writer, { name: 'kept', serviceId })).toBe(201)
  const path = join(temporaryFolder(), 'vedette.backup')
  expect(await startVedette(['backup', path], own).ended).toMatchObject({ code: 0, stderr: '' })
  const inUse = await startVedette(['restore', path], own).ended
  expect([inUse.code, inUse.stderr]).toEqual([2, expect.stringContaining('is in use')])
  const other = temporaryFolder()
  const restored = await startVedette(['restore', path], { DATA_DIR: other }).ended
  expect(restored).toMatchObject({ code: 0, stderr: '' })
  fs.copyFileSync(join(own.DATA_DIR, 'secrets.key'), join(other, 'secrets.key'))
  const next = await start(other)
  expect((await listNames(next.url, writer)).counts).toEqual(new Map([['kept', 1]]))
})

test('a first start on a full disk ends with 1, which a supervisor repeats', async ({ skip }) => {
  skip(process.getuid?.() !== 0, 'needs root, to mount a small disk')
  const disk = mountSmallDisk('size=1m,mode=755')
  onTestFinished(disk.remove)
  const DATA_DIR = join(disk.folder, 'data')
  const full = await startRefused(DATA_DIR)
  expect([full.code, full.stderr]).toEqual([1, expect.stringContaining('PostgreSQL')])
  execFileSync('mount', ['-o', 'remount,size=512m', disk.folder])
  expect(await readiness((await start(DATA_DIR)).url)).toEqual(READY)
})

test('keys are made and revoked with the platform, and listed without it', async () => {
  const own = { DATA_DIR: temporaryFolder() }
  const platform = await start(own.DATA_DIR)
  const { accountId } = storedCredentials(own.DATA_DIR)
  const keys = (...args: string[]) => startVedette(['keys', ...args], own).ended
  const made = await keys('create', '--name', 'x', '--role', 'read only')
  expect(made).toMatchObject({ code: 0, stderr: '' })
  const of = (name: string) => new RegExp(`^ {2}${name} +(\\S+)`, 'm').exec(made.stdout)?.[1] ?? ''
  const headers = { authorization: `Bearer ${of('key')}`, 'x-service-account': accountId }
  const status = async () => (await fetch(`${platform.url}/v1/accounts/me`, { headers })).status
  expect(await status()).toBe(200)
  expect((await keys('revoke', of('id'))).code).toBe(0)
  await untilHolds(async () => expect(await status()).toBe(401))
  platform.kill('SIGTERM')
  await platform.ended
  const stdout = expect.stringMatching(new RegExp(`${of('id')} .* revoked `)) as string
  expect(await keys('list')).toMatchObject({ code: 0, stderr: '', stdout })
})
