// Aim: two agents on one machine never give the same user to two runs, and a user that is given back is free again. Locks
// of one process count like those of two (flock(2)).
import { chmodSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { SandboxUsers, userLocksFolder } from '../../src/sandbox/users.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const FIRST = 150_000 + (process.pid % 10_000) * 256
const isRoot = process.getuid?.() === 0

test.skipIf(!isRoot)(`two agents share no user${isRoot ? '' : ': needs root'}`, () => {
  const root = temporaryFolder()
  const [one, other] = [new SandboxUsers(FIRST, [root]), new SandboxUsers(FIRST, [root])]
  expect([one, one, other, one].map((agent) => agent.acquire())).toEqual(
    [0, 1, 2, 3].map((at) => FIRST + at),
  )
  one.giveBack(FIRST)
  expect(other.acquire()).toBe(FIRST)
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
