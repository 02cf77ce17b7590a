// An agent on a monitors file accounts for each slot once across SIGTERM, SIGKILL and new starts.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Result } from '../../src/contract/result.ts'
import {
  monitorsFile,
  type StartedAgent,
  startAgentProcess,
} from '../support/agent/agent-process.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { startHttpServer, type TestServer } from '../support/test-server.ts'

const EVERY = { fast: 1000, slow: 2000, hung: 3000 }

let site: TestServer
beforeAll(async () => {
  site = await startHttpServer((request, response) => {
    if (request.url === '/fast') response.end('ok')
    // Longer than a slot, and across the end of the process.
    if (request.url === '/slow') setTimeout(() => response.end('ok'), 700)
  })
})
afterAll(() => site.close())

const monitorOf = (id: string, every: string, path = id) => ({
  id,
  name: id,
  type: 'URL',
  every,
  maxResponseTime: 30_000,
  request: { url: `http://${site.authority}/${path}` },
})

function fileOf(ids: readonly (keyof typeof EVERY)[] = ['fast', 'slow', 'hung']): string {
  return monitorsFile(ids.map((id) => monitorOf(id, `${EVERY[id] / 1000}s`)))
}

const start = (dataDir: string, file: string): Promise<StartedAgent> =>
  startAgentProcess({ DATA_DIR: dataDir, MONITORS_FILE: file, DRAIN_SECONDS: '1' })
const resultsCome = (agent: StartedAgent, count: number) =>
  eventually(() => agent.results().length >= count, { what: `${count} results` })

/** Slots that the account on disk has as open, by `id slot`. */
function openSlots(dataDir: string): Set<string> {
  const open = new Set<string>()
  for (const folder of readdirSync(join(dataDir, 'slots'))) {
    const text = readFileSync(join(dataDir, 'slots', folder, 'slots'), 'utf8')
    for (const line of text.split('\n').filter((one) => one.endsWith(']'))) {
      const [kind, id, ...rest] = JSON.parse(line) as [string, string, ...number[]]
      if (kind === 'd') open.add(`${id} ${rest[1]}`)
      if (kind === 't') open.delete(`${id} ${rest[0]}`)
    }
  }
  return open
}

/**
 * Kills it. Gives the slots that have a line and no record of it: those are two writes, and nothing makes them one,
 * so the next agent reports such a slot again.
 */
async function kill(agent: StartedAgent, dataDir: string): Promise<string[]> {
  await agent.stop('SIGKILL')
  const open = openSlots(dataDir)
  const lines = agent.results().map(({ monitorId, slot }) => `${monitorId} ${slot}`)
  return lines.filter((line) => open.has(line))
}

/** The slots of a monitor, the oldest first. */
const slotsOf = (results: readonly Result[], id: string) =>
  results
    .filter(({ monitorId }) => monitorId === id)
    .map(({ slot }) => slot)
    .toSorted((a, b) => a - b)

/** Each slot between the first and the last one is there, once; twice where it is `repeated`. */
function expectAllOnce(
  results: readonly Result[],
  id: keyof typeof EVERY,
  repeated: readonly string[],
): void {
  const slots = slotsOf(results, id)
  const [first = 0, last = 0] = [slots[0], slots.at(-1)]
  expect(slots.length).toBeGreaterThan(2)
  const all = Array.from(
    { length: (last - first) / EVERY[id] + 1 },
    (_, at) => first + at * EVERY[id],
  )
  const twice = all.filter((slot) => repeated.includes(`${id} ${slot}`))
  expect(slots).toEqual([...all, ...twice].toSorted((a, b) => a - b))
}

test('each slot has one line across SIGTERM, SIGKILL, and times without an agent', async () => {
  const [dataDir, file] = [join(temporaryFolder(), 'data'), fileOf()]
  const all: Result[] = []
  const repeated: string[] = []
  for (const signal of ['SIGKILL', 'SIGTERM', 'SIGKILL', 'SIGKILL', 'SIGTERM'] as const) {
    const agent = await start(dataDir, file)
    await resultsCome(agent, 6)
    if (signal === 'SIGTERM') await agent.stop()
    else repeated.push(...(await kill(agent, dataDir)))
    all.push(...agent.results())
    // No agent runs the slots until the next start.
    await new Promise((resolve) => setTimeout(resolve, 2500))
  }
  expectAllOnce(all, 'fast', repeated)
  expectAllOnce(all, 'slow', repeated)
  const restarted = all.filter(({ missedReason }) => missedReason === 'restarted')
  expect(new Set(restarted.map(({ monitorId }) => monitorId))).toEqual(
    new Set(['fast', 'slow', 'hung']),
  )
  expectAllOnce(all, 'hung', repeated)
})

test('a slot is not run again by a start within it, nor reported for a monitor that is new or has another interval', async () => {
  const [dataDir, file] = [join(temporaryFolder(), 'data'), fileOf(['fast'])]
  const first = await start(dataDir, file)
  await resultsCome(first, 2)
  await first.stop()
  const hourly = monitorOf('fast', '1h')
  const monitors = [hourly, monitorOf('new', '1h', 'fast')]
  writeFileSync(file, JSON.stringify({ monitors }))
  const second = await start(dataDir, file)
  await resultsCome(second, 2)
  await second.stop()
  const third = await start(dataDir, file)
  await third.line(({ msg }) => msg === 'monitors loaded')
  writeFileSync(file, JSON.stringify({ monitors: [hourly, monitorOf('mark', '1s', 'fast')] }))
  await resultsCome(third, 5)
  await third.stop()
  const ran = [...second.results(), ...third.results()]
  expect(ran.filter(({ missedReason }) => missedReason === 'restarted')).toEqual([])
  expect(slotsOf(ran, 'fast')).toHaveLength(1)
  expect(slotsOf(ran, 'new')).toHaveLength(1)
})

test('three agents of one file and DATA_DIR have an account each, and a new one continues that of a killed one', async () => {
  const [dataDir, file] = [join(temporaryFolder(), 'data'), fileOf(['fast'])]
  mkdirSync(dataDir)
  const three = await Promise.all([1, 2, 3].map(() => start(dataDir, file)))
  await Promise.all(three.map((one) => resultsCome(one, 3)))
  expect(readdirSync(join(dataDir, 'slots'))).toHaveLength(3)
  const [killed, ...others] = three as [StartedAgent, ...StartedAgent[]]
  const repeated = await kill(killed, dataDir)
  const next = await start(dataDir, file)
  await resultsCome(next, 3)
  expect(readdirSync(join(dataDir, 'slots'))).toHaveLength(3)
  await Promise.all([next, ...others].map((one) => one.stop()))
  expectAllOnce([...killed.results(), ...next.results()], 'fast', repeated)
  for (const one of others) expectAllOnce(one.results(), 'fast', [])
})
