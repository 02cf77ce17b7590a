// Aim: two agents on one machine never give the same user to two runs, and the users of a dead one are free again.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, test } from 'vitest'
import { userLocksFolder } from '../../src/sandbox/users.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const TAKER = fileURLToPath(new URL('../support/sandbox/acquire-users.ts', import.meta.url))
const FIRST = 150_000 + (process.pid % 10_000) * 256
const isRoot = process.getuid?.() === 0

const started: ChildProcess[] = []
afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGKILL')
})

/** Starts an agent's part that takes users, and waits until it can. */
async function startTaker(root: string) {
  const child = spawn(process.execPath, [TAKER, String(FIRST), root], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  started.push(child)
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const answer = async () => (await lines.next()).value as string
  await answer()
  return {
    async acquire(count: number): Promise<number[]> {
      child.stdin.write(`take ${count}\n`)
      return JSON.parse(await answer()) as number[]
    },
    async giveBack(userId: number): Promise<void> {
      child.stdin.write(`give-back ${userId}\n`)
      await answer()
    },
    async die(): Promise<void> {
      child.kill('SIGKILL')
      await once(child, 'exit')
    },
  }
}

describe.skipIf(!isRoot)(`users of runs${isRoot ? '' : ': needs root'}`, () => {
  test('are never the same of two agents that take them at the same time', async () => {
    const root = temporaryFolder()
    const agents = await Promise.all([startTaker(root), startTaker(root)])
    for (let round = 1; round <= 5; round++) {
      const acquired = await Promise.all(agents.map((one) => one.acquire(20)))
      expect(new Set(acquired.flat()).size).toBe(40)
      for (const [at, users] of acquired.entries()) {
        for (const userId of users) await agents[at]?.giveBack(userId)
      }
    }
  })

  test('are free again when they are given back, and when their agent dies', async () => {
    const root = temporaryFolder()
    const [one, other] = await Promise.all([startTaker(root), startTaker(root)])
    expect(await one.acquire(2)).toEqual([FIRST, FIRST + 1])
    expect(await other.acquire(1)).toEqual([FIRST + 2])
    await one.giveBack(FIRST)
    expect(await other.acquire(1)).toEqual([FIRST])
    await one.die()
    expect(await other.acquire(1)).toEqual([FIRST + 1])
  })
})

describe.skipIf(!isRoot)(`the folder of the locks${isRoot ? '' : ': needs root'}`, () => {
  test('is the first that root alone may enter; what others have put there is not taken', () => {
    const [open, linked, good] = [temporaryFolder(), temporaryFolder(), temporaryFolder()]
    mkdirSync(join(open, 'vedette-users'))
    chmodSync(join(open, 'vedette-users'), 0o755)
    symlinkSync(good, join(linked, 'vedette-users'))
    const folder = userLocksFolder(['/nowhere', open, linked, good])
    expect(folder).toBe(join(good, 'vedette-users'))
    expect(readdirSync(good)).toEqual(['vedette-users'])
  })

  test('is none where nothing can be written', () => {
    expect(userLocksFolder(['/nowhere', '/proc'])).toBeUndefined()
  })
})
