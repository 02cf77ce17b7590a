// Aim: a real platform keeps its own faults in its own table, or sends them to SENTRY_DSN, or does neither
// and loads nothing for it.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { startEnvelopeReceiver } from '../support/agent/envelope-receiver.ts'
import { useDatabase } from '../support/database/database.ts'
import { startPlatform } from '../support/platform/platform-process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const use = useDatabase()
const open: { close(): unknown }[] = []
afterEach(async () => {
  await Promise.all(open.splice(0).map((one) => one.close()))
})

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
  expect(stored).toMatchObject([
    {
      location_id: null,
      report: {
        level: 'fatal',
        type: 'TypeError',
        message: '',
        release: expect.stringMatching(/^vedette-platform@/) as string,
      },
    },
  ])
  expect(JSON.stringify(stored)).not.toContain(MESSAGE)
  expect(JSON.stringify(stored)).not.toContain(new URL(url).pathname)
})

test('it sends them to SENTRY_DSN instead', async () => {
  const at = await startEnvelopeReceiver()
  open.push(at)
  const { code, stored } = await failing({ SENTRY_DSN: at.dsn })
  expect([code, stored]).toEqual([1, []])
  expect(at.received).toHaveLength(1)
  expect(at.bytes()).not.toContain(MESSAGE)
})

test('switched off, it does neither and loads no reporting module', async () => {
  const at = await startEnvelopeReceiver()
  open.push(at)
  const off = await failing({ SENTRY_DSN: at.dsn, EXTERNAL_OBSERVABILITY: 'off' })
  expect([off.code, off.stored, off.loaded, at.bytes()]).toEqual([1, [], [], ''])
})
