// Aim: a launcher that does not come to its command keeps nobody waiting: not for longer than it may take, and not
// when the run is called off; and nothing of it is left.
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import type {
  SupervisorCommand,
  SupervisorRequest,
  SupervisorReport,
} from '../../../src/sandbox/request.ts'
import { removeTree } from '../../../src/sandbox/remove-tree.ts'
import { ROOMY } from '../../support/sandbox/sandboxed.ts'
import { eventually } from '../../support/eventually.ts'

const SUPERVISOR = fileURLToPath(
  new URL('../../../src/sandbox/supervisor/supervisor.ts', import.meta.url),
)

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
  const folder = mkdtempSync(join(tmpdir(), 'vedette-supervisor-'))
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
  if (supervisor.stdout === null) throw new Error('no output')
  createInterface({ input: supervisor.stdout }).on('line', (line) => {
    reports.push(JSON.parse(line) as SupervisorReport)
  })
  return { send, exited, reports, launcher, clear: () => removeTree(folder) }
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
  const { exited, reports, launcher, clear } = await delayed(300)
  expect(await exited).toBe(0)
  expect(reports).toMatchObject([
    {
      event: 'ended',
      end: {
        outcome: 'sandbox-failed',
        problem: expect.stringMatching(/not ready within 300 ms/),
        leftBehind: 0,
      },
    },
  ])
  expect(existsSync(`/proc/${launcher}`)).toBe(false)
  await clear()
})

test.each(['ask', 'kill'] as const)(
  'a run that is called off (%s) meanwhile ends at once',
  async (call) => {
    const { send, exited, reports, launcher, clear } = await delayed(600_000)
    send({ do: call, outcome: 'cancelled' })
    expect(await exited).toBe(0)
    expect(reports).toMatchObject([{ end: { outcome: 'cancelled', leftBehind: 0 } }])
    expect(existsSync(`/proc/${launcher}`)).toBe(false)
    await clear()
  },
)
