// A launcher that does not get ready ends at its limit or when the run is cancelled, and leaves nothing.
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { expect, onTestFinished, test } from 'vitest'
import type {
  SupervisorCommand,
  SupervisorReport,
  SupervisorRequest,
} from '../../../src/sandbox/request.ts'
import { ROOMY } from '../../support/sandbox/sandboxed.ts'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const SUPERVISOR = join(import.meta.dirname, '../../../src/sandbox/supervisor/supervisor.ts')

/** A supervisor whose launcher is stopped before it has an order. */
async function delayed(startMs: number) {
  const flags = ['--disable-warning=ExperimentalWarning']
  const supervisor = spawn(process.execPath, [...flags, SUPERVISOR], {
    stdio: ['pipe', 'pipe', 'inherit', 'pipe', 'pipe', 'pipe', 'pipe'],
  })
  const exited = new Promise((resolve) => supervisor.once('exit', resolve))
  let launcher = 0
  await eventually(() => (launcher = launcherOf(supervisor.pid ?? 0)) > 0, { what: 'the launcher' })
  process.kill(launcher, 'SIGSTOP')
  onTestFinished(() => {
    if (existsSync(`/proc/${launcher}`)) process.kill(launcher, 'SIGKILL')
    supervisor.kill('SIGKILL')
  })
  const folder = temporaryFolder()
  const order: SupervisorRequest = {
    command: '/bin/true',
    args: [],
    folder,
    cwd: folder,
    environment: {},
    readable: [],
    limits: ROOMY,
    startMs,
    ask: { signal: 'SIGTERM', to: 'leader', graceMs: 100 },
    network: { blocked: [], allowed: [] },
    isolation: 'best',
  }
  const send = (said: SupervisorRequest | SupervisorCommand) =>
    supervisor.stdin?.write(`${JSON.stringify(said)}\n`)
  send(order)
  const reports: SupervisorReport[] = []
  createInterface({ input: supervisor.stdout as Readable }).on('line', (line) => {
    reports.push(JSON.parse(line) as SupervisorReport)
  })
  return { send, exited, reports, launcher }
}

/** The launcher, once it has become that: before, its parent waits for it. */
function launcherOf(parent: number): number {
  const children = readFileSync(`/proc/${parent}/task/${parent}/children`, 'latin1').trim()
  const found = children
    .split(' ')
    .find((pid) => pid !== '' && readFileSync(`/proc/${pid}/cmdline`).includes('launcher.ts'))
  return Number(found ?? 0)
}

test('a launcher that does not get ready in its time fails the run, with the time', async () => {
  const { exited, reports, launcher } = await delayed(300)
  expect(await exited).toBe(0)
  const problem = expect.stringMatching(/not ready within 300 ms/)
  const end = { outcome: 'sandbox-failed', problem, leftBehind: 0 }
  expect(reports).toMatchObject([{ event: 'ended', end }])
  expect(existsSync(`/proc/${launcher}`)).toBe(false)
})

test.each(['ask', 'kill'] as const)('a run that is called off (%s) ends at once', async (call) => {
  const { send, exited, reports, launcher } = await delayed(600_000)
  send({ do: call, outcome: 'cancelled' })
  expect(await exited).toBe(0)
  expect(reports).toMatchObject([{ end: { outcome: 'cancelled', leftBehind: 0 } }])
  expect(existsSync(`/proc/${launcher}`)).toBe(false)
})
