// Two agents never give the same user to two runs. Locks of one process count like those of two (flock(2)).
import { chmodSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { SandboxUsers, userLocksFolder } from '../../src/sandbox/users.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const FIRST = 150_000 + (process.pid % 10_000) * 256
const isRoot = process.getuid?.() === 0

const why = isRoot ? '' : ': needs root'

test.skipIf(!isRoot)(`two agents share no user${why}`, () => {
  const root = temporaryFolder()
  const [one, other] = [new SandboxUsers(FIRST, [root]), new SandboxUsers(FIRST, [root])]
  const users = [one, one, other, one].map((agent) => agent.acquire())
  expect(users).toEqual([0, 1, 2, 3].map((at) => FIRST + at))
  one.giveBack(FIRST)
  expect(other.acquire()).toBe(FIRST)
})

test.skipIf(!isRoot)(
  `locks are where root alone may enter, not where others put them${why}`,
  () => {
    const [open, linked, good] = [temporaryFolder(), temporaryFolder(), temporaryFolder()]
    mkdirSync(join(open, 'vedette-users'))
    chmodSync(join(open, 'vedette-users'), 0o755)
    symlinkSync(good, join(linked, 'vedette-users'))
    const folder = userLocksFolder(['/nowhere', open, linked, good])
    expect(userLocksFolder(['/nowhere', '/proc'])).toBeUndefined()
    expect(folder).toBe(join(good, 'vedette-users'))
    expect(readdirSync(good)).toEqual(['vedette-users'])
  },
)
