// The user of a run is emptied in one step and nobody else is touched; a child that no look met ends, too.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { killUser } from '../../../src/sandbox/supervisor/processes.ts'

const why = process.getuid?.() === 0 ? undefined : 'needs root, to become other users'
const FIRST_USER = 2_000_000 + process.pid * 2

test.skipIf(why !== undefined)(
  `a user of a run is killed, and nobody else ${why ?? ''}`,
  async () => {
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
  },
)

const PROCESSES = join(import.meta.dirname, '../../../src/sandbox/supervisor/processes.ts')

/** Like a supervisor whose first looks come too early for the child that is there. */
const SUPERVISOR = `
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Descendants, endAll } from ${JSON.stringify(PROCESSES)}
class Early extends Descendants {
  looks = 0
  look(certain) { return this.looks++ < 2 ? [] : super.look(certain) }
}
const child = spawn('sleep', ['60'], { stdio: 'ignore' })
await once(child, 'spawn')
const { left } = await endAll(new Early(() => child.pid), undefined)
console.log(JSON.stringify({ left, signal: child.signalCode }))
process.exit()`

test('a child that no look has met is ended all the same', () => {
  const args = ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', SUPERVISOR]
  const said = execFileSync(process.execPath, args, { timeout: 20_000 }).toString()
  expect(JSON.parse(said)).toEqual({ left: 0, signal: 'SIGKILL' })
})
