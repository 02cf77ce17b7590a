// `vedette run` that is interrupted, with a real agent whose monitor waits for a target that never answers.
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
}

async function newestRun(fleet: Fleet): Promise<RunRow | undefined> {
  const [row] = await fleet.database.query<RunRow>(
    `select id, state, verdict
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
  await eventually(() => running.stderr.includes('once more ends it at once'), { ms: 1_000 })
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
    stderr: expect.stringContaining('nothing was asked for'),
  })
  expect(performance.now() - since).toBeLessThan(5_000)
})
