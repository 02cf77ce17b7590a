// A process that writes a spool is killed again and again, at any point. Results that it reported as safe are
// there, unless it had begun to forget them, and the next process works.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { openSpool } from '../../../support/agent/delivery/opened-spool.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

const KILLS = 20
const writer = fileURLToPath(
  new URL('../../../support/agent/delivery/spool-writer.ts', import.meta.url),
)

interface Reported {
  safe: Set<number>
  done: Set<number>
  other: string[]
}

/** Runs the process until it has written so many lines, then kills it. */
async function killAfter(
  lines: number,
  folder: string,
  first: number,
  reported: Reported,
): Promise<void> {
  const args = [writer, folder, String(first)]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const closed = once(child, 'close')
  let count = 0
  createInterface({ input: child.stdout }).on('line', (line) => {
    const [code, number] = line.split(' ')
    if (code === 'safe') reported.safe.add(Number(number))
    else if (code === 'done') reported.done.add(Number(number))
    else reported.other.push(line)
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
  const reported: Reported = { safe: new Set(), done: new Set(), other: [] }
  for (let kill = 0; kill < KILLS; kill++) {
    await killAfter(1 + ((kill * 37) % 211), folder, kill * 100_000, reported)
    const { numbers, lost } = await numbersOn(folder)
    const there = new Set(numbers)
    expect([...reported.safe].filter((one) => !there.has(one) && !reported.done.has(one))).toEqual(
      [],
    )
    // A kill while a shared file replaces others may leave both: the platform accepts each result once.
    expect(lost).toBe(0)
  }
  expect(reported.safe.size).toBeGreaterThan(500)
  expect(reported.done.size).toBeGreaterThan(100)
  expect(reported.other).toEqual([])
})
