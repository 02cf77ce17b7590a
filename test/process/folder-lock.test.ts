// Folder lock: one holder at a time; dead holders are recognised, and live ones of other containers as well.
import { readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { type FolderLock, lockFolder } from '../../src/process/folder-lock.ts'
import { isAlive, ownIdentity } from '../../src/process/process-identity.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const locks: FolderLock[] = []

async function lock(folder: string, onLost: () => void = () => undefined): Promise<FolderLock> {
  const one = await lockFolder(folder, 'test.lock', onLost, 500)
  locks.push(one)
  return one
}

afterEach(() => {
  vi.useRealTimers()
  for (const one of locks.splice(0)) one.release()
})

function leave(folder: string, changes: object): string {
  const file = join(folder, 'test.lock')
  const holder = { ...ownIdentity(), host: 'there', since: 'then', token: 'theirs', ...changes }
  writeFileSync(file, JSON.stringify(holder))
  return file
}

describe('a lock', () => {
  test('has one holder, and is free after its release', async () => {
    const folder = temporaryFolder()
    const first = await lock(folder)
    const refused = lock(folder)
    await expect(refused).rejects.toMatchObject({ code: 'LOCKED', holder: { pid: process.pid } })
    first.release()
    first.release()
    expect(readdirSync(folder)).toEqual([])
    await lock(folder)
  })

  test('of a dead holder is acquired by one of many concurrent processes', async () => {
    const folder = temporaryFolder()
    leave(folder, { startedTicks: '1' })
    const outcomes = await Promise.allSettled(Array.from({ length: 20 }, () => lock(folder)))
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    expect(readdirSync(folder)).toEqual(['test.lock'])
  })

  test.each<[string, object | undefined]>([
    ['of a process whose number is free', { pid: 4_194_304 }],
    ['that another machine does not renew', { space: 'elsewhere' }],
    ['that a full disk truncated', undefined],
  ])('%s is taken over', async (_, changes) => {
    const folder = temporaryFolder()
    const file = leave(folder, changes ?? {})
    if (changes === undefined) writeFileSync(file, '{"pid": 1')
    await lock(folder)
    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ pid: process.pid })
  })

  test('of another machine or container is respected while it is renewed', async () => {
    const folder = temporaryFolder()
    const file = leave(folder, { space: 'elsewhere' })
    let renewals = 0
    const renewal = setInterval(() => utimesSync(file, 0, ++renewals), 20)
    onTestFinished(() => clearInterval(renewal))
    await expect(lock(folder)).rejects.toMatchObject({ code: 'LOCKED' })
  })

  test('that was lost is reported, and not released by its former holder', async () => {
    const folder = temporaryFolder()
    vi.useFakeTimers()
    let isLost = false
    const mine = await lock(folder, () => (isLost = true))
    const file = leave(folder, {})
    await vi.advanceTimersByTimeAsync(1000)
    expect(isLost).toBe(true)
    mine.release()
    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ token: 'theirs' })
  })
})

test('a process recognises itself as alive, and no process of another PID namespace', () => {
  expect(isAlive(ownIdentity())).toBe(true)
  expect(isAlive({ ...ownIdentity(), startedTicks: '1' })).toBe(false)
  expect(isAlive({ ...ownIdentity(), space: 'elsewhere' })).toBeUndefined()
})
