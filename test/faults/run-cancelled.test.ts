// `vedette run` and `vedette cancel` with a real agent whose monitor waits for a target that never answers.
import { expect, onTestFinished, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { type Fleet, fleetOf } from '../support/faults/fleet.ts'
import { startVedette } from '../support/platform/platform-process.ts'
import { startRawServer } from '../support/test-server.ts'

/** A run in the platform's database. */
interface RunRow {
  id: string
  state: string
  verdict: string | null
  /** From the request to cancel it to the end of the run on its agent. */
  cancelMs: number | null
}

async function newestRun(fleet: Fleet): Promise<RunRow | undefined> {
  const [row] = await fleet.database.query<RunRow>(
    `select id, state, verdict, ((result->>'startedAt')::float8 + (result->>'durationMs')::float8
       - extract(epoch from cancel_asked_at) * 1000)::float8 as "cancelMs"
     from runs order by created_at desc limit 1`,
  )
  return row
}

/** A platform with an agent, and a monitor whose target never answers. */
async function waitingMonitor(): Promise<{ fleet: Fleet; id: string }> {
  const { fleet } = await fleetOf(['one'])
  const unresponsive = await startRawServer(() => {})
  onTestFinished(() => unresponsive.close())
  const [id = ''] = await fleet.createMonitors(1, 10, ['cellar'], {
    activated: false,
    maxResponseTime: 45_000,
    degradedResponseTime: 45_000,
    request: { url: `http://${unresponsive.authority}/` },
  })
  return { fleet, id }
}

const runningRun = (fleet: Fleet): Promise<RunRow> =>
  eventually(async () => {
    const row = await newestRun(fleet)
    return row?.state === 'running' ? row : undefined
  })

test.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)('%s of `vedette run` cancels the run and shows it', async (signal, exitCode) => {
  const { fleet, id } = await waitingMonitor()
  const running = startVedette(['run', id, '--json'], fleet.commandSettings())
  const { id: run } = await runningRun(fleet)
  running.kill(signal)
  await eventually(() => running.stderr.includes('repeat to stop immediately'), { ms: 1_000 })
  const { code, stdout, stderr } = await running.ended
  expect(code).toBe(exitCode)
  expect(stderr).toContain('vedette run: cancelling')
  expect(JSON.parse(stdout)).toMatchObject({ id: run, verdict: 'cancelled' })
  expect(await newestRun(fleet)).toMatchObject({ id: run, verdict: 'cancelled' })
})

test('Ctrl-C ends `vedette run` before an unresponsive platform was asked for a run', async () => {
  const unresponsive = await startRawServer(() => {})
  onTestFinished(() => unresponsive.close())
  const asks = unresponsive.connection()
  const running = startVedette(['run', 'Shop'], {
    PLATFORM_URL: `http://${unresponsive.authority}`,
    ACCOUNT_ID: '0f8fad5b-d9cb-469f-a165-70867728950e',
    VEDETTE_API_KEY: 'some-key-of-a-platform',
  })
  await asks
  running.kill('SIGINT')
  const since = performance.now()
  const { code, stderr } = await running.ended
  expect({ code, stderr }).toEqual({
    code: 130,
    stderr: expect.stringContaining('no run was requested'),
  })
  expect(performance.now() - since).toBeLessThan(5_000)
})

test('`vedette cancel` ends a run on its agent within a second', async () => {
  const { fleet, id } = await waitingMonitor()
  const running = startVedette(['run', id, '--json'], fleet.commandSettings())
  const { id: run } = await runningRun(fleet)
  const cancelling = startVedette(['cancel', run], fleet.commandSettings())
  expect(await cancelling.ended).toMatchObject({ code: 0 })
  const { code, stdout } = await running.ended
  // The result says nothing about the target.
  expect(code).toBe(4)
  expect(JSON.parse(stdout)).toMatchObject({ id: run, verdict: 'cancelled' })
  const { cancelMs } = (await newestRun(fleet)) as RunRow
  expect(cancelMs).toBeGreaterThan(-5)
  expect(cancelMs).toBeLessThan(1000)
})
