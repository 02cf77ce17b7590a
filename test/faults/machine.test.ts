// Faults of an agent's machine: its clock is set, its disk is full. Slots follow the platform's time, and the account
// of slots is complete.
import { execFileSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { faultsOf, fleetOf } from '../support/faults/fleet.ts'
import { missing } from '../support/needs.ts'
import { mountSmallDisk } from '../support/small-disk.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const LIBFAKETIME = `/usr/lib/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu/faketime/libfaketime.so.1`

describe('the clock of an agent’s machine', () => {
  test('is wrong by hours and jumps forth and back: slots keep to the platform’s time', async ({
    skip,
  }) => {
    const lacking = missing('faketime')
    skip(lacking !== undefined, lacking)
    const { fleet: made, location } = await fleetOf([])
    const offset = join(temporaryFolder(), 'offset')
    const set = (seconds: string) => writeFileSync(offset, seconds)
    set('-86400')
    expect(existsSync(LIBFAKETIME)).toBe(true)
    const agent = made.startAgent({
      location,
      name: 'one',
      env: {
        LD_PRELOAD: LIBFAKETIME,
        FAKETIME_TIMESTAMP_FILE: offset,
        FAKETIME_NO_CACHE: '1',
        DONT_FAKE_MONOTONIC: '1',
      },
    })
    await made.agents(1)
    const ids = await made.createMonitors(20, 2, ['cellar'])
    for (const seconds of ['+7200', '-7200', '+0', '+3', '-3', '-86400']) {
      const since = Date.now()
      set(seconds)
      await eventually(() => made.havePassed(since + 1000, ids.length), {
        what: `slots at ${seconds}`,
      })
    }
    // A slot at the very end may find the agent already stopping.
    const until = Date.now() - 1000
    agent.child.kill('SIGTERM')
    await agent.ended
    const account = await made.account(until)
    expect(faultsOf(account)).toEqual({})
  })
})

describe('the disk of an agent', () => {
  test('is full while the platform is away: it continues, and reports what it dropped', async ({
    skip,
  }) => {
    skip(process.getuid?.() !== 0, 'needs root, to mount a small disk')
    // Removed after the agents have ended, which would write into the folder below it.
    const { folder: disk, remove } = mountSmallDisk('size=1m')
    onTestFinished(remove)
    const { fleet: made, location } = await fleetOf([])
    const agent = made.startAgent({ location, name: 'one', env: { DATA_DIR: disk } })
    await made.agents(1)
    const ids = await made.createMonitors(40, 1, ['cellar'])
    await eventually(() => made.havePassed(0, ids.length))
    const [platform] = made.platforms
    if (platform === undefined) throw new Error('one runs')
    await made.endPlatform(platform, 'SIGKILL')
    writeFileSync(join(disk, 'filler'), Buffer.alloc(600 * 1024))
    try {
      writeFileSync(join(disk, 'more'), Buffer.alloc(1024 * 1024))
    } catch {
      // It is full now.
    }
    const before = made.requests()
    await eventually(() => made.requests() > before + 2000)
    const since = Date.now()
    await made.startPlatform()
    await eventually(() => made.havePassed(since, ids.length))
    const account = await made.account()
    expect(account).toMatchObject({ missing: 0, unexpected: 0 })
    agent.child.kill('SIGTERM')
    expect(await agent.ended).toMatchObject({ code: 0 })
  })
})

test('a disk that can only be read at the start is used when it can be written', async ({
  skip,
}) => {
  skip(process.getuid?.() !== 0, 'needs root, to mount a small disk')
  // Removed after the agents have ended, which would write into the folder below it.
  const { folder: disk, remove } = mountSmallDisk('ro,size=16m')
  onTestFinished(remove)
  const { fleet: made, location } = await fleetOf([])
  const [platform] = made.platforms
  const start = () => {
    const at = { location, name: 'one', env: { DATA_DIR: disk }, platformUrl: platform?.url ?? '' }
    return made.startAgent(at)
  }
  const agent = start()
  const { url } = await agent.line(({ msg }) => msg === 'agent started')
  const isInMemory = async () => {
    const answer = await fetch(`${String(url)}/-/readiness`)
    return ((await answer.json()) as { warnings: string[] }).warnings.join().includes('in memory')
  }
  await made.agents(1)
  const ids = await made.createMonitors(20, 1, ['cellar'])
  await eventually(() => made.havePassed(0, ids.length))
  expect(await isInMemory()).toBe(true)
  if (platform !== undefined) await made.endPlatform(platform, 'SIGKILL')
  const before = made.requests()
  await eventually(() => made.requests() > before + 5 * ids.length)
  execFileSync('mount', ['-o', 'remount,rw', disk])
  await eventually(async () => !(await isInMemory()), { what: 'results on disk' })
  // The cache of monitors is written some seconds later.
  await eventually(() => existsSync(join(disk, 'agents/1/monitors')))
  agent.child.kill('SIGKILL')
  await agent.ended
  const again = start()
  const since = Date.now()
  await again.line(({ msg }) => msg === 'agent started')
  await made.startPlatform()
  await eventually(() => made.havePassed(since, ids.length))
  const account = await made.account()
  expect(account).toMatchObject({ missing: 0, unexpected: 0 })
  const missed = account.byVerdict['missed'] ?? 0
  // Only the slots between the kill and the start; results in memory before were delivered.
  expect(missed).toBeLessThanOrEqual(ids.length * 5)
  expect(account.byVerdict['passed']).toBe(account.expected - missed)
})
