// Aim: a run's user is emptied in one step, without a look at who descends from whom, and nobody else is touched.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { killUser } from '../../src/monitors/warden-processes.ts'

const why = process.getuid?.() === 0 ? undefined : 'needs root, to become other users'
const FIRST_USER = 2_000_000 + process.pid * 2

test.skipIf(why !== undefined)('a user of a run is killed, and nobody else', async () => {
  const start = async (uid: number) => {
    const child = spawn('sleep', ['60'], { uid, stdio: 'ignore' })
    await once(child, 'spawn')
    return child
  }
  const [run, other] = [await start(FIRST_USER), await start(FIRST_USER + 1)]
  try {
    const ended = once(run, 'exit')
    killUser(FIRST_USER)
    expect(process.geteuid?.()).toBe(0)
    expect(await ended).toEqual([null, 'SIGKILL'])
    expect(other.kill(0)).toBe(true)
    expect(other.signalCode).toBeNull()
  } finally {
    for (const child of [run, other]) child.kill('SIGKILL')
  }
})
