// Aim: an agent on a monitors file accounts for each slot once across SIGTERM, SIGKILL and new starts: by a
// result or by `missed`; also with several agents in one DATA_DIR.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Result } from '../../src/contract/result.ts'
import {
  type AgentProcess,
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

const agents: StartedAgent[] = []
afterAll(() => agents.forEach(({ child }) => child.kill('SIGKILL')))

function monitorsFile(ids: readonly (keyof typeof EVERY)[] = ['fast', 'slow', 'hung']): string {
  const monitors = ids.map((id) => ({
    id,
    name: id,
    type: 'URL',
    every: `${EVERY[id] / 1000}s`,
    maxResponseTime: 30_000,
    request: { url: `http://${site.authority}/${id}` },
  }))
  const path = join(temporaryFolder(), 'monitors.yaml')
  writeFileSync(path, JSON.stringify({ monitors }))
  return path
}

async function start(dataDir: string, file: string): Promise<StartedAgent> {
  const env = { DATA_DIR: dataDir, MONITORS_FILE: file, LOG_RESULTS: 'all', DRAIN_SECONDS: '1' }
  const agent = await startAgentProcess(env)
  agents.push(agent)
  return agent
}

const resultsOf = (agent: AgentProcess) =>
  agent.lines.flatMap((line) => (line['result'] === undefined ? [] : [line['result'] as Result]))
const resultsCome = (agent: AgentProcess, count: number) =>
  eventually(() => resultsOf(agent).length >= count, { what: `${count} results` })

async function end(agent: StartedAgent, signal: NodeJS.Signals): Promise<void> {
  agent.child.kill(signal)
  await agent.ended
}

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

/** Ends it between a line and the next one: a line and its record are two writes, and nothing makes them one. */
async function kill(agent: StartedAgent, dataDir: string): Promise<void> {
  await eventually(async () => {
    agent.child.kill('SIGSTOP')
    // What it has written is read meanwhile.
    await new Promise((resolve) => setTimeout(resolve, 100))
    const open = openSlots(dataDir)
    const isBetween = resultsOf(agent).every(
      ({ monitorId, slot }) => !open.has(`${monitorId} ${slot}`),
    )
    if (!isBetween) agent.child.kill('SIGCONT')
    return isBetween
  })
  await end(agent, 'SIGKILL')
}

/** The slots of a monitor, the oldest first. */
const slotsOf = (results: readonly Result[], id: string) =>
  results
    .filter(({ monitorId }) => monitorId === id)
    .map(({ slot }) => slot)
    .toSorted((a, b) => a - b)

/** Each slot between the first and the last one is there, once. */
function expectAllOnce(results: readonly Result[], id: keyof typeof EVERY): void {
  const slots = slotsOf(results, id)
  const [first = 0] = slots
  expect(slots.length).toBeGreaterThan(2)
  expect(slots).toEqual(slots.map((_, at) => first + at * EVERY[id]))
}

test('each slot has one line across SIGTERM, SIGKILL, and times without an agent', async () => {
  const [dataDir, file] = [join(temporaryFolder(), 'data'), monitorsFile()]
  const all: Result[] = []
  for (const signal of ['SIGKILL', 'SIGTERM', 'SIGKILL', 'SIGKILL', 'SIGTERM'] as const) {
    const agent = await start(dataDir, file)
    await resultsCome(agent, 6)
    await (signal === 'SIGKILL' ? kill(agent, dataDir) : end(agent, signal))
    all.push(...resultsOf(agent))
    // No agent runs the slots until the next start.
    await new Promise((resolve) => setTimeout(resolve, 2500))
  }
  expectAllOnce(all, 'fast')
  expectAllOnce(all, 'slow')
  const restarted = all.filter(({ missedReason }) => missedReason === 'restarted')
  expect(new Set(restarted.map(({ monitorId }) => monitorId))).toEqual(
    new Set(['fast', 'slow', 'hung']),
  )
  expect(slotsOf(all, 'hung')).toEqual([...new Set(slotsOf(all, 'hung'))])
})

test('a slot is not run again by a start within it, nor reported for a monitor that is new or has another interval', async () => {
  const [dataDir, file] = [join(temporaryFolder(), 'data'), monitorsFile(['fast'])]
  const first = await start(dataDir, file)
  await resultsCome(first, 2)
  await end(first, 'SIGTERM')
  const monitor = (id: string, every: string) => ({
    id,
    name: id,
    type: 'URL',
    every,
    request: { url: `http://${site.authority}/fast` },
  })
  writeFileSync(file, JSON.stringify({ monitors: [monitor('fast', '1h'), monitor('new', '1h')] }))
  const second = await start(dataDir, file)
  await resultsCome(second, 2)
  await end(second, 'SIGTERM')
  const third = await start(dataDir, file)
  await third.line(({ msg }) => msg === 'monitors loaded')
  writeFileSync(file, JSON.stringify({ monitors: [monitor('fast', '1h'), monitor('mark', '1s')] }))
  await resultsCome(third, 5)
  await end(third, 'SIGTERM')
  const ran = [...resultsOf(second), ...resultsOf(third)]
  expect(ran.filter(({ missedReason }) => missedReason === 'restarted')).toEqual([])
  expect(slotsOf(ran, 'fast')).toHaveLength(1)
  expect(slotsOf(ran, 'new')).toHaveLength(1)
})

test('three agents of one file and DATA_DIR have an account each, and a new one continues that of a killed one', async () => {
  const [dataDir, file] = [join(temporaryFolder(), 'data'), monitorsFile(['fast'])]
  mkdirSync(dataDir)
  const three = await Promise.all([1, 2, 3].map(() => start(dataDir, file)))
  await Promise.all(three.map((one) => resultsCome(one, 3)))
  expect(readdirSync(join(dataDir, 'slots'))).toHaveLength(3)
  const [killed, ...others] = three as [StartedAgent, ...StartedAgent[]]
  await kill(killed, dataDir)
  const next = await start(dataDir, file)
  await resultsCome(next, 3)
  expect(readdirSync(join(dataDir, 'slots'))).toHaveLength(3)
  await Promise.all([next, ...others].map((one) => end(one, 'SIGTERM')))
  expectAllOnce([...resultsOf(killed), ...resultsOf(next)], 'fast')
  for (const one of others) expectAllOnce(resultsOf(one), 'fast')
})
