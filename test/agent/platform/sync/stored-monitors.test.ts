// Stored monitors: read again under their key, and not readable without it.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openAgentFolder } from '../../../../src/agent/delivery/spool/agent-folder.ts'
import { StoredMonitors } from '../../../../src/agent/platform/sync/stored-monitors.ts'
import { storedTime } from '../../../../src/agent/schedule/stored-clock.ts'
import { aMonitor } from '../../../support/agent/fake-monitors.ts'
import { collectingLog } from '../../../support/collecting-log.ts'
import { NOTHING } from '../../../support/agent/fake-platform.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

const ID = '22222222-2222-4222-8222-222222222222'
const PLANTED = 'tulip'

test('the stored file holds nothing readable, and only its key opens it', async () => {
  const dataDir = temporaryFolder()
  const { log, lines } = collectingLog()
  /** Opens the folder under a key, as one start of the agent does. */
  const started = async (apiKey: string) => {
    const folder = await openAgentFolder({ dataDir, apiKey, onLost: () => undefined })
    return { folder, stored: new StoredMonitors(folder, log) }
  }
  const variables = [{ key: PLANTED, value: PLANTED, secret: true, locked: false }]
  const request = { url: `http://${PLANTED}.test/${PLANTED}` }
  const monitor = aMonitor(ID, { name: PLANTED, request })

  const first = await started('pl_0123456789abcdef')
  first.stored.soon(() => ({
    answer: { ...NOTHING, variables },
    monitors: [{ monitor, slots: { everyMs: 10_000, offsetMs: 0 }, from: 1000, digest: '' }],
    time: storedTime(Date.now()),
  }))
  await first.stored.flush()
  const bytes = readFileSync(join(first.folder.path ?? '', 'monitors'))
  for (const text of [PLANTED, ID, NOTHING.location.slugName]) {
    expect(bytes.includes(text)).toBe(false)
  }
  const { changes } = (await first.stored.read())?.answer ?? {}
  expect(changes).toMatchObject({ variables, set: [{ monitor: { id: ID, request } }] })
  first.folder.close()

  const other = await started('pl_another_key')
  expect(other.folder.path).toBe(first.folder.path)
  expect(lines).toEqual([])
  expect(await other.stored.read()).toBeUndefined()
  expect(lines).toHaveLength(1)
  other.folder.close()
})
