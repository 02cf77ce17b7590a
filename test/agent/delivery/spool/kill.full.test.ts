// A process that writes a spool is killed at any point: no result that it reported as safe is lost.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openSpool } from '../../../support/agent/delivery/opened-spool.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

const KILLS = 20
const writer = join(import.meta.dirname, '../../../support/agent/delivery/spool-writer.ts')

/** The numbers that it reported. */
type Reported = Record<'safe' | 'done', Set<number>>

/** Runs the process until it has written so many lines, then kills it. */
async function killAfter(lines: number, args: string[], reported: Reported): Promise<void> {
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const closed = once(child, 'close')
  let count = 0
  createInterface({ input: child.stdout }).on('line', (line) => {
    const [code, number] = line.split(' ')
    reported[code as keyof Reported].add(Number(number))
    if (++count === lines) child.kill('SIGKILL')
  })
  await closed
}

async function numbersOn(dataDir: string): Promise<{ numbers: number[]; lost: number }> {
  const { spool, kill } = await openSpool(dataDir)
  const numbers: number[] = []
  for (;;) {
    const some = await spool.takeOld()
    if (some.length === 0) break
    const entries = some.flatMap((one) => one.entries ?? [])
    numbers.push(...entries.map((entry) => (JSON.parse(entry) as { number: number }).number))
  }
  await spool.close()
  kill()
  return { numbers, lost: spool.lost.damaged + spool.lost.full + spool.lost.memory }
}

test('nothing that was safe is lost', async () => {
  const folder = temporaryFolder()
  const reported: Reported = { safe: new Set(), done: new Set() }
  for (let kill = 0; kill < KILLS; kill++) {
    await killAfter(1 + ((kill * 37) % 211), [writer, folder, String(kill * 100_000)], reported)
    const { numbers, lost } = await numbersOn(folder)
    const there = new Set(numbers)
    const isGone = (one: number) => !there.has(one) && !reported.done.has(one)
    expect([...reported.safe].filter(isGone)).toEqual([])
    // A kill while a shared file replaces others may leave both: the platform accepts each result once.
    expect(lost).toBe(0)
  }
  expect(reported.safe.size).toBeGreaterThan(500)
  expect(reported.done.size).toBeGreaterThan(100)
})
