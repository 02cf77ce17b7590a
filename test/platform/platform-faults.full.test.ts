// Aim: a real platform stores its own faults, or sends them to SENTRY_DSN, or does neither.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { startEnvelopeReceiver } from '../support/agent/envelope-receiver.ts'
import { useDatabase } from '../support/database/database.ts'
import { startPlatform } from '../support/platform/platform-process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const use = useDatabase()
const receiver = async () => {
  const at = await startEnvelopeReceiver()
  onTestFinished(() => at.close())
  return at
}

const MESSAGE = ['quokka', 'wombat'].join('')

/** A platform that fails; the reporting modules that it has loaded, and the faults that it has stored. */
async function failing(env: Record<string, string>) {
  const log = join(temporaryFolder(), 'watched')
  writeFileSync(log, '')
  const { database, url } = use()
  const platform = await startPlatform({
    DATABASE_URL: url,
    DATA_DIR: temporaryFolder(),
    SECRETS_KEY: 'a key that only this test knows, and no other',
    NODE_OPTIONS: `--import ${new URL('../support/watched-process.ts', import.meta.url).href}`,
    WATCHED_FILE: log,
    WATCHED_TEXT: `${MESSAGE} ${url}`,
    ...env,
  })
  process.kill(platform.pid, 'SIGUSR2')
  const { code } = await platform.ended
  const stored = await database.query<{ report: object; location_id: string | null }>(
    'delete from faults returning report, location_id',
  )
  const loaded = readFileSync(log, 'utf8').match(/faults\/event\.ts|envelope-poster\.ts/g) ?? []
  return { code, stored, loaded, url }
}

test('it stores its own faults', async () => {
  const { code, stored, loaded, url } = await failing({})
  expect(code).toBe(1)
  expect(loaded).not.toEqual([])
  const release = expect.stringMatching(/^vedette-platform@/) as string
  const report = { level: 'fatal', type: 'TypeError', message: '', release }
  expect(stored).toMatchObject([{ location_id: null, report }])
  for (const secret of [MESSAGE, new URL(url).pathname]) {
    expect(JSON.stringify(stored)).not.toContain(secret)
  }
})

test('it sends them to SENTRY_DSN instead', async () => {
  const at = await receiver()
  const { code, stored } = await failing({ SENTRY_DSN: at.dsn })
  expect([code, stored]).toEqual([1, []])
  expect(at.received).toHaveLength(1)
  expect(at.bytes()).not.toContain(MESSAGE)
})

test('switched off, it does neither and loads no reporting module', async () => {
  const at = await receiver()
  const off = await failing({ SENTRY_DSN: at.dsn, EXTERNAL_OBSERVABILITY: 'off' })
  expect([off.code, off.stored, off.loaded, at.bytes()]).toEqual([1, [], [], ''])
})
