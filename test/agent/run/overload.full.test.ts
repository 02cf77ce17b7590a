// An agent that is busy or stopped fails no target, and slots are missed for the true reason.
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import type { Result } from '../../../src/contract/result.ts'
import { startAgentProcess, type StartedAgent } from '../../support/agent/agent-process.ts'
import { eventually } from '../../support/eventually.ts'
import { temporaryFile } from '../../support/temporary-folder.ts'
import { startHttpServer } from '../../support/test-server.ts'

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
  onTestFinished(() => server.close())
  const request = `request: { url: "http://${server.authority}/" }`
  const times = 'degradedResponseTime: 1000, maxResponseTime: 2000'
  const monitors = `monitors: [{ name: a, type: URL, every: 1s, ${times}, ${request} }]`
  agent = await startAgentProcess({
    MONITORS_FILE: temporaryFile('monitors.yaml', monitors),
    NODE_OPTIONS: `--import=${temporaryFile('busy.mjs', BUSY_ON_SIGNAL)}`,
  })
  return agent
}

/** The results up to the first that passed after a slot was missed. */
async function resultsOf(agent: StartedAgent): Promise<Result[]> {
  await eventually(() => {
    const verdicts = agent.results().map(({ verdict }) => verdict)
    return (
      verdicts.includes('missed') && verdicts.lastIndexOf('passed') > verdicts.indexOf('missed')
    )
  })
  return agent.results()
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
