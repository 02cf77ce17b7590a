// Aim: `vedette start` is a complete installation in one process: its monitors are on the platform, its agent delivers
// results, a second start continues with the data of the first, and changes of the monitors file are applied.
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { processesWith, startScript, startVedette } from '../support/platform/platform-process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const ANY_PORT = { PORT: '0', AGENT_HEALTH_PORT: '0' }

/** Starts everything in `folder` and waits until it is ready; calls its API with the stored key. */
async function start(folder: string, env: Record<string, string> = {}) {
  const started = startVedette(['start'], { DATA_DIR: folder, ...ANY_PORT, ...env })
  onTestFinished(() => started.kill('SIGKILL'))
  const [, url = ''] = await started.line(/"url":"([^"]+)"[^\n]*"msg":"everything started"/)
  const { accountId, adminApiKey } = JSON.parse(
    await readFile(join(folder, 'credentials.json'), 'utf8'),
  ) as Record<string, string>
  const get = async <T>(path: string): Promise<T> => {
    const account = { 'x-service-account': accountId ?? '' }
    const headers = { authorization: `Bearer ${adminApiKey}`, ...account }
    return (await (await fetch(url + path, { headers })).json()) as T
  }
  return { started, get, accountId }
}

interface Keys {
  adminApiKey: string
}

interface ResultPage {
  length: number
  entries: { verdict: string }[]
}

interface BundlePage {
  entries: { sha256: string; checks: number }[]
}

interface Named {
  id: string
  name: string
}

const namesOf = (checks: Named[]) => checks.map(({ name }) => name).toSorted()
const listed = '/v1/checks?limit=100'

test('the examples are watched, a second start continues, and no process is left', async () => {
  const folder = temporaryFolder()
  const first = await start(folder)
  const checks = await first.get<Named[]>(listed)
  expect(checks.length).toBeGreaterThan(5)
  const [, name = ''] = await first.started.line(/"msg":"([^"]+): passed"/)
  const found = checks.find((one) => one.name === name)
  const results = await eventually(async () => {
    const page = await first.get<ResultPage>(`/v2/check-results/${found?.id}`)
    return page.length > 0 && page
  })
  expect(results.entries[0]).toMatchObject({ verdict: 'passed' })
  const keyFile = join(folder, 'local-location.json')
  expect((await stat(keyFile)).mode & 0o777).toBe(0o600)
  const key = await readFile(keyFile, 'utf8')
  expect(first.started.stdout).not.toContain((JSON.parse(key) as { apiKey: string }).apiKey)
  const [line] = await first.started.line(/.*"msg":"everything started".*/)
  const { url, ...places } = JSON.parse(line) as Record<string, string>
  expect(places).toMatchObject({
    docs: `${url}/docs`,
    account: first.accountId,
    keyIn: join(folder, 'credentials.json'),
    agentKeyIn: keyFile,
  })
  const credentials = JSON.parse(await readFile(places['keyIn'] ?? '', 'utf8')) as Keys
  expect(first.started.stdout).not.toContain(credentials.adminApiKey)
  first.started.kill('SIGTERM')
  expect(await first.started.ended).toMatchObject({ code: 0, stderr: '' })
  expect(processesWith(folder)).toEqual([])

  const second = await start(folder)
  expect(second.accountId).toBe(first.accountId)
  expect(namesOf(await second.get(listed))).toEqual(namesOf(checks))
  expect(await readFile(keyFile, 'utf8')).toBe(key)
  await second.started.line(/: passed"/)
  second.started.kill('SIGINT')
  expect(await second.started.ended).toMatchObject({ code: 0, stderr: '' })
})

test('a changed monitors file is applied if it is valid, and else changes nothing', async () => {
  const folder = temporaryFolder()
  const file = join(folder, 'monitors.yaml')
  const monitor = (id: string) =>
    `  - {id: ${id}, name: ${id}, type: TCP, every: 10s, request: {hostname: 127.0.0.1, port: 9}}\n`
  await writeFile(file, `location: cellar\nmonitors:\n${monitor('one')}`)
  const { started, get } = await start(folder, { MONITORS_FILE: file })
  expect(namesOf(await get(listed))).toEqual(['one'])
  expect(await get('/v1/private-locations')).toMatchObject([{ slugName: 'cellar' }])
  await writeFile(file, `monitors:\n${monitor('two')}${monitor('three')}`)
  await started.line(/the monitors file was applied/)
  expect(namesOf(await get(listed))).toEqual(['three', 'two'])
  await writeFile(file, 'monitors: [{name: broken, type: NOTHING}]\n')
  await started.line(/the monitors file is invalid; the previous monitors keep running/)
  expect(namesOf(await get(listed))).toEqual(['three', 'two'])
  started.kill('SIGTERM')
  expect(await started.ended).toMatchObject({ code: 0, stderr: '' })
})

test('projects of suites are uploaded from the folder of the file, also after a change', async () => {
  const folder = temporaryFolder()
  const file = join(folder, 'monitors.yaml')
  for (const name of ['shop', 'till']) {
    await mkdir(join(folder, name))
    await writeFile(join(folder, name, 'package.json'), `{"name":"${name}"}`)
  }
  const write = (path: string) =>
    writeFile(
      file,
      `monitors:\n  - {id: e2e, name: e2e, type: PLAYWRIGHT, every: 1h, codeBundlePath: ${path}}\n`,
    )
  await write('./shop')
  const { started, get } = await start(join(folder, 'data'), { MONITORS_FILE: file })
  const named = async () => (await get<{ codeBundlePath: string }[]>(listed))[0]?.codeBundlePath
  const shop = (await named()) ?? ''
  expect(shop).toMatch(/^bundle:[0-9a-f]{64}$/)
  await write('till')
  await started.line(/the monitors file was applied/)
  const till = (await named()) ?? ''
  expect(till).toMatch(/^bundle:[0-9a-f]{64}$/)
  expect(till).not.toBe(shop)
  const { entries } = await get<BundlePage>('/v1/code-bundles')
  expect(entries.map(({ sha256, checks }) => [`bundle:${sha256}`, checks])).toEqual([
    [till, 1],
    [shop, 0],
  ])
  await write('./nowhere')
  await started.line(/codeBundlePath[^\n]*nowhere/)
  await started.line(/the monitors file is invalid; the previous monitors keep running/)
  expect(await named()).toBe(till)
  started.kill('SIGTERM')
  expect(await started.ended).toMatchObject({ code: 0, stderr: '' })
})

test('its database may be killed: it logs lines without stacks, and recovers', async () => {
  const folder = temporaryFolder()
  // As on a terminal, where the platform logs only warnings and errors.
  const { started, get } = await start(folder, { LOG_LEVEL: 'INFO' })
  const file = join(folder, 'postgres', 'data', 'postmaster.pid')
  const [pid = ''] = (await readFile(file, 'utf8')).split('\n')
  process.kill(Number(pid), 'SIGKILL')
  const isDown = async () => (await get<{ statusCode?: number }>(listed)).statusCode === 503
  const asked = eventually(isDown)
  await started.line(/PostgreSQL ended; starting it again/)
  await asked
  await started.line(/"level":"warn"[^\n]*PostgreSQL is running again/)
  const checks = await eventually(async () => {
    const listing = await get<Named[] | object>(listed)
    return Array.isArray(listing) && listing
  })
  expect(checks.length).toBeGreaterThan(5)
  started.kill('SIGTERM')
  const { code, stdout, stderr } = await started.ended
  expect([code, stderr]).toEqual([0, ''])
  expect(stdout.match(/the database did not answer/g)).toHaveLength(1)
  expect(stdout).not.toContain('"stack"')
})

test('on one address alone the agent reaches the platform', async () => {
  const { started, get } = await start(temporaryFolder(), { HOST: '127.0.0.2' })
  expect((await get<Named[]>(listed)).length).toBeGreaterThan(5)
  await started.line(/: passed"/)
  started.kill('SIGTERM')
  expect(await started.ended).toMatchObject({ code: 0, stderr: '' })
})

test('without the key of an existing account it says what to do', async () => {
  const folder = temporaryFolder()
  const { started } = await start(folder)
  started.kill('SIGTERM')
  await started.ended
  await rm(join(folder, 'credentials.json'))
  const again = startVedette(['start'], { DATA_DIR: folder, ...ANY_PORT })
  const { code, stderr } = await again.ended
  expect([code, stderr]).toEqual([2, expect.stringContaining('ADMIN_API_KEY')])
})

describe('with one monitor, whose address does not answer,', () => {
  const settings = async () => {
    const folder = temporaryFolder()
    const file = join(folder, 'mine.yaml')
    await writeFile(
      file,
      'monitors: [{id: mine, name: mine, type: TCP, request: {hostname: 127.0.0.1, port: 9}}]\n',
    )
    return { file, env: { DATA_DIR: join(folder, 'data'), ...ANY_PORT } }
  }

  test('it takes settings from the files that variables name', async () => {
    const { file, env } = await settings()
    const [path, which] = [`${file}.path`, `${file}.which`]
    await writeFile(path, `${file}\n`)
    await writeFile(which, 'changes\n')
    const files = { MONITORS_FILE_FILE: path, LOG_RESULTS_FILE: which }
    const started = startVedette(['start'], { ...files, ...env })
    await started.line(/"monitorName":"mine"/)
    started.kill('SIGTERM')
    expect(await started.ended).toMatchObject({ code: 0, stderr: '' })
  })

  test.each(['SIGINT', 'SIGTERM'] as const)(
    'npm start ends by a %s to npm alone',
    async (signal) => {
      const { file, env } = await settings()
      const started = startScript('start', { MONITORS_FILE: file, ...env })
      await started.line(/"msg":"agent started"/)
      started.kill(signal)
      // Output is at its end when the last process that holds it has ended.
      const { stdout } = await started.ended
      expect(stdout).toContain('"msg":"platform stopped"')
    },
  )
})
