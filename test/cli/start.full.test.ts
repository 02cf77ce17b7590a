// Aim: `vedette start` is a complete installation in one process, and continues where the last start ended.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { processesWith, startScript, startVedette } from '../support/platform/platform-process.ts'
import type { Loose } from '../support/platform/public-api.ts'
import { storedCredentials } from '../support/platform/written-incidents.ts'
import { temporaryFile, temporaryFolder } from '../support/temporary-folder.ts'

const ANY_PORT = { PORT: '0', AGENT_HEALTH_PORT: '0' }

/** Starts everything in `folder` and waits until it is ready; calls its API with the stored key. */
async function start(folder: string, env: Record<string, string> = {}) {
  const started = startVedette(['start'], { DATA_DIR: folder, ...ANY_PORT, ...env })
  onTestFinished(() => started.kill('SIGKILL'))
  const [line, url = ''] = await started.line(/.*"url":"([^"]+)"[^\n]*"msg":"everything started".*/)
  const { accountId, adminApiKey } = storedCredentials(folder)
  const headers = { authorization: `Bearer ${adminApiKey}`, 'x-service-account': accountId }
  const get = async (path: string): Promise<Loose> => (await fetch(url + path, { headers })).json()
  const checks = () => get('/v1/checks?limit=100')
  const names = async () => (await checks()).map((one: Loose) => one.name).toSorted()
  /** Ends it cleanly. */
  const end = async (signal: 'SIGTERM' | 'SIGINT' = 'SIGTERM') => {
    started.kill(signal)
    expect(await started.ended).toMatchObject({ code: 0, stderr: '' })
  }
  return { started, line, url, get, checks, names, end, accountId, adminApiKey }
}

test('the examples are watched, a second start continues, and no process is left', async () => {
  const folder = temporaryFolder()
  const first = await start(folder)
  const names = await first.names()
  expect(names.length).toBeGreaterThan(5)
  const [, name = ''] = await first.started.line(/"msg":"([^"]+): passed"/)
  const { id } = (await first.checks()).find((one: Loose) => one.name === name)
  const results = await eventually(async () => {
    const page = await first.get(`/v2/check-results/${id}`)
    return page.length > 0 && page.entries
  })
  expect(results[0]).toMatchObject({ verdict: 'passed' })
  const agentKeyIn = join(folder, 'local-location.json')
  expect(fs.statSync(agentKeyIn).mode & 0o777).toBe(0o600)
  const key = fs.readFileSync(agentKeyIn, 'utf8')
  const keyIn = join(folder, 'credentials.json')
  const places = { docs: `${first.url}/docs`, account: first.accountId, keyIn, agentKeyIn }
  expect(JSON.parse(first.line)).toMatchObject(places)
  for (const secret of [(JSON.parse(key) as { apiKey: string }).apiKey, first.adminApiKey]) {
    expect(first.started.stdout).not.toContain(secret)
  }
  await first.end()
  expect(processesWith(folder)).toEqual([])

  const second = await start(folder)
  expect([second.accountId, await second.names()]).toEqual([first.accountId, names])
  expect(fs.readFileSync(agentKeyIn, 'utf8')).toBe(key)
  await second.started.line(/: passed"/)
  await second.end('SIGINT')
})

test('a changed monitors file is applied with its suites if it is valid, on one address alone', async () => {
  const folder = temporaryFolder()
  const file = join(folder, 'monitors.yaml')
  for (const name of ['shop', 'till']) {
    fs.mkdirSync(join(folder, name))
    fs.writeFileSync(join(folder, name, 'package.json'), `{"name":"${name}"}`)
  }
  const write = (codeBundlePath: string, ...ids: string[]) => {
    const request = { hostname: '127.0.0.1', port: 9 }
    const tcp = ids.map((id) => ({ id, name: id, type: 'TCP', every: '10s', request }))
    const e2e = { id: 'e2e', name: 'e2e', type: 'PLAYWRIGHT', every: '1h', codeBundlePath }
    const monitors = [...tcp, e2e]
    fs.writeFileSync(file, JSON.stringify({ location: 'cellar', monitors }))
  }
  write('./shop', 'one')
  const env = { MONITORS_FILE: file, HOST: '127.0.0.2' }
  const { started, get, checks, names, end } = await start(join(folder, 'data'), env)
  const bundle = async () =>
    (await checks()).find((one: Loose) => one.name === 'e2e').codeBundlePath as string
  expect(await names()).toEqual(['e2e', 'one'])
  expect(await get('/v1/private-locations')).toMatchObject([{ slugName: 'cellar' }])
  await started.line(/one: failed"/)
  const shop = await bundle()
  write('till', 'two', 'three')
  await started.line(/the monitors file was applied/)
  const till = await bundle()
  expect(till).not.toBe(shop)
  const { entries } = await get('/v1/code-bundles')
  expect(entries.map((one: Loose) => [`bundle:${one.sha256}`, one.checks])).toEqual([
    [till, 1],
    [shop, 0],
  ])
  write('./nowhere')
  await started.line(/codeBundlePath[^\n]*nowhere/)
  await started.line(/the monitors file is invalid; the previous monitors keep running/)
  expect([await names(), await bundle()]).toEqual([['e2e', 'three', 'two'], till])
  await end()
})

test('its database may be killed: it logs lines without stacks, and recovers', async () => {
  const folder = temporaryFolder()
  // As on a terminal, where the platform logs only warnings and errors.
  const { started, checks } = await start(folder, { LOG_LEVEL: 'INFO' })
  const file = join(folder, 'postgres', 'data', 'postmaster.pid')
  process.kill(Number.parseInt(fs.readFileSync(file, 'utf8'), 10), 'SIGKILL')
  const asked = eventually(async () => (await checks()).statusCode === 503)
  await started.line(/PostgreSQL ended; starting it again/)
  await asked
  await started.line(/"level":"warn"[^\n]*PostgreSQL is running again/)
  await eventually(async () => (await checks()).length > 5)
  started.kill('SIGTERM')
  const { code, stdout, stderr } = await started.ended
  expect([code, stderr]).toEqual([0, ''])
  expect(stdout.match(/the database did not answer/g)).toHaveLength(1)
  expect(stdout).not.toContain('"stack"')
})

test('without the key of an existing account it says what to do', async () => {
  const folder = temporaryFolder()
  await (await start(folder)).end()
  fs.rmSync(join(folder, 'credentials.json'))
  const { code, stderr } = await startVedette(['start'], { DATA_DIR: folder, ...ANY_PORT }).ended
  expect([code, stderr]).toEqual([2, expect.stringContaining('ADMIN_API_KEY')])
})

describe('with one monitor, whose address does not answer,', () => {
  const file = temporaryFile(
    'mine.yaml',
    'monitors: [{id: mine, name: mine, type: TCP, request: {hostname: 127.0.0.1, port: 9}}]\n',
  )

  test('it takes settings from the files that variables name', async () => {
    const started = startVedette(['start'], {
      MONITORS_FILE_FILE: temporaryFile('path', `${file}\n`),
      LOG_RESULTS_FILE: temporaryFile('which', 'changes\n'),
      DATA_DIR: temporaryFolder(),
      ...ANY_PORT,
    })
    await started.line(/"monitorName":"mine"/)
    started.kill('SIGTERM')
    expect(await started.ended).toMatchObject({ code: 0, stderr: '' })
  })

  test.each(['SIGINT', 'SIGTERM'] as const)('a %s to npm alone ends npm start', async (signal) => {
    const env = { MONITORS_FILE: file, DATA_DIR: temporaryFolder(), ...ANY_PORT }
    const started = startScript('start', env)
    await started.line(/"msg":"agent started"/)
    started.kill(signal)
    // Output is at its end when the last process that holds it has ended.
    expect((await started.ended).stdout).toContain('"msg":"platform stopped"')
  })
})
