// A process that writes a spool is killed again and again, at any point. Results that it reported as safe are
// there, unless it had begun to forget them, and the next process works.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { createAgentCipher } from '../../../../src/agent/delivery/spool/agent-cipher.ts'
import { openSpool } from '../../../../src/agent/delivery/spool/spool.ts'
import { collectingLog } from '../../../support/collecting-log.ts'
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

async function numbersOn(folder: string): Promise<{ numbers: number[]; lost: number }> {
  const spool = await openSpool({
    folder,
    cipher: createAgentCipher('pl_killed_again'),
    bytesMax: 64 * 1024 * 1024,
    log: collectingLog().log,
    isHeld: () => true,
    onStored: () => undefined,
  })
  const numbers: number[] = []
  for (let stored = await spool.next(); stored !== undefined; stored = await spool.next()) {
    numbers.push(...stored.entries.map((entry) => (JSON.parse(entry) as { number: number }).number))
  }
  const { damaged, full, memory } = spool.lost
  await spool.close()
  return { numbers, lost: damaged + full + memory }
}

test('nothing that was safe is lost, nothing is there twice', async () => {
  const folder = temporaryFolder()
  const reported: Reported = { safe: new Set(), done: new Set(), other: [] }
  for (let kill = 0; kill < KILLS; kill++) {
    await killAfter(1 + ((kill * 37) % 211), folder, kill * 100_000, reported)
    const { numbers, lost } = await numbersOn(folder)
    const there = new Set(numbers)
    expect([...reported.safe].filter((one) => !there.has(one) && !reported.done.has(one))).toEqual(
      [],
    )
    expect([there.size, lost]).toEqual([numbers.length, 0])
  }
  expect(reported.safe.size).toBeGreaterThan(500)
  expect(reported.done.size).toBeGreaterThan(100)
  expect(reported.other).toEqual([])
})
