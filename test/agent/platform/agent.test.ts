// Source and sink of an agent work together: results are delivered as soon as the platform answers again.
import { expect, test } from 'vitest'
import { readAgentConfig } from '../../../src/agent/config.ts'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import { openPlatformParts } from '../../../src/agent/platform/agent.ts'
import type { AgentReport } from '../../../src/agent/source.ts'
import { collectingLog } from '../../support/collecting-log.ts'
import { FAKE_KEY, json, startFakePlatform } from '../../support/agent/fake-platform.ts'
import { aResult } from '../../support/results.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const NO_QUEUE = { waiting: 0, running: 0, free: 1 }
const REPORT: AgentReport = {
  queues: () => ({ uptime: NO_QUEUE, scripted: NO_QUEUE }),
  runs: () => [],
  onRunsChanged: () => undefined,
}

test('results are delivered when the platform is back, not at their next attempt', async () => {
  const at = await startFakePlatform()
  at.misbehave((request, response) => {
    const isSync = request.url?.endsWith('/sync') === true
    if (!isSync) response.setHeader('retry-after', '300')
    json(response, { message: 'away' }, 503)
    return true
  })
  const to = { apiKey: FAKE_KEY, platformUrl: at.url }
  const env = { DATA_DIR: temporaryFolder(), TOOLS_DIR: '/nowhere' }
  const { config } = readAgentConfig({ env, stdout: {} })
  const parts = await openPlatformParts({
    settings: { ...config, ...to },
    checkTypes: ['URL'],
    clock: createClock(),
    log: collectingLog().log,
  })
  await parts.sink.deliver(aResult())
  await expect.poll(() => parts.sink.warnings?.()).toHaveLength(1)
  const stop = new AbortController()
  const follow = async () => {
    const kinds: string[] = []
    for await (const { kind } of parts.source.follow(stop.signal, REPORT)) kinds.push(kind)
    return kinds
  }
  const following = follow()
  await at.sync(() => true)
  at.misbehave(undefined)
  await at.result(() => true)
  await expect.poll(() => parts.sink.warnings?.()).toEqual([])
  stop.abort()
  expect(await following).toEqual(['monitors'])
  await parts.sink.flush?.(1000)
  parts.close()
  await at.close()
})
