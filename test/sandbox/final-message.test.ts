// Aim: the last report of a supervisor is received, also where the system reports its exit before that was read.
import { spawn } from 'node:child_process'
import { chmodSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { sandboxed } from '../support/sandbox/sandboxed.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const WAIT_MS_MAX = 20_000

test('the end of another child does not come between a run and its end', async () => {
  const folder = temporaryFolder()
  chmodSync(folder, 0o755)
  const begun = Promise.withResolvers<void>()
  const running = sandboxed({
    command: '/bin/sh',
    args: () => ['-c', `echo up; until [ -e ${folder}/go ]; do sleep 0.01; done; exit 7`],
    readable: [folder],
    onOutput: () => begun.resolve(),
  })
  await begun.promise
  const other = spawn('echo', ['received in one turn with its own end, which is looked at last'])
  other.stdout.on('data', () => {
    writeFileSync(join(folder, 'go'), '')
    block(() => endedChildren().some((pid) => pid !== other.pid))
  })
  // The end of a child is asked of the system for all children at once: now for the supervisor as well.
  other.on('exit', () => {})
  block(() => endedChildren().includes(other.pid ?? 0))
  expect(await running).toMatchObject({ outcome: 'exited', exitCode: 7 })
})

/** Zombies: children of this process that have ended and that nobody has waited for. */
function endedChildren(): number[] {
  const processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return processes.map(Number).filter((pid) => {
    try {
      const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      const [state, parent] = fields.slice(fields.lastIndexOf(')') + 2).split(' ')
      return state === 'Z' && Number(parent) === process.pid
    } catch {
      return false
    }
  })
}

/** Blocks the event loop of this process until it is so. */
function block(until: () => boolean): void {
  const cell = new Int32Array(new SharedArrayBuffer(4))
  const deadline = performance.now() + WAIT_MS_MAX
  while (!until()) {
    if (performance.now() > deadline) throw new Error('no child has ended')
    Atomics.wait(cell, 0, 0, 10)
  }
}
