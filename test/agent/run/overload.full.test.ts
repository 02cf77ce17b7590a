// A real agent whose one thread is busy, or which is stopped, while it watches a target that answers at once:
// neither is the target's fault, and slots are missed for the reason that is true.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { writeFileSync } from 'node:fs'
import { afterEach, expect, test } from 'vitest'
import type { Result } from '../../../src/contract/result.ts'
import {
  startAgentProcess,
  type LogLine,
  type StartedAgent,
} from '../../support/agent/agent-process.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { startHttpServer } from '../../support/test-server.ts'

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp()
})

const STILL_MS = 3500
/** Keeps the thread busy for that long when it is sent SIGUSR2. */
const BUSY_ON_SIGNAL = `process.on('SIGUSR2', () => {
  const untilMs = performance.now() + ${STILL_MS}
  while (performance.now() < untilMs);
})`

/** An agent that watches a server once a second; `onRequest` is called before each answer. */
async function watched(onRequest: (agent: StartedAgent, count: number) => unknown) {
  let count = 0
  let agent: StartedAgent | undefined
  const server = await startHttpServer((_, response) => {
    count++
    void Promise.resolve(agent && onRequest(agent, count)).then(() => response.end('ok'))
  })
  cleanUps.push(() => server.close())
  const folder = temporaryFolder()
  const file = join(folder, 'monitors.yaml')
  const preload = join(folder, 'busy.mjs')
  const request = `request: { url: "http://${server.authority}/" }`
  const times = 'degradedResponseTime: 1000, maxResponseTime: 2000'
  writeFileSync(file, `monitors: [{ name: a, type: URL, every: 1s, ${times}, ${request} }]`)
  writeFileSync(preload, BUSY_ON_SIGNAL)
  agent = await startAgentProcess({ MONITORS_FILE: file, NODE_OPTIONS: `--import=${preload}` })
  const { child } = agent
  cleanUps.push(() => child.kill('SIGKILL'))
  return agent
}

const resultOf = (line: LogLine) => line['result'] as Result | undefined

/** The results up to the first that passed after a slot was missed. */
async function resultsOf(agent: StartedAgent): Promise<Result[]> {
  let isMissed = false
  await agent.line((line) => {
    isMissed ||= resultOf(line)?.verdict === 'missed'
    return isMissed && resultOf(line)?.verdict === 'passed'
  })
  return agent.lines.flatMap((line) => resultOf(line) ?? [])
}

/** Outcomes of the slots, without those that come due during the attempt. */
const seenIn = (results: readonly Result[]) =>
  new Set(
    results
      .map(({ verdict, missedReason }) => missedReason ?? verdict)
      .filter((one) => one !== 'still-running'),
  )

test('a busy thread fails no target, and what it skips is missed: overloaded', async () => {
  const agent = await watched(async ({ child }, count) => {
    if (count !== 2) return
    child.kill('SIGUSR2')
    // Answered while the thread is busy.
    await sleep(100)
  })
  expect(seenIn(await resultsOf(agent))).toEqual(new Set(['passed', 'overloaded']))
}, 60_000)

test('a process that is stopped fails no target, and what it skips is missed: suspended', async () => {
  const agent = await watched(async ({ child }, count) => {
    if (count !== 2) return
    child.kill('SIGSTOP')
    await sleep(STILL_MS)
    child.kill('SIGCONT')
  })
  expect(seenIn(await resultsOf(agent))).toEqual(new Set(['passed', 'suspended']))
}, 60_000)
