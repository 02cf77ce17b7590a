// Appends to a spool until it is killed; prints `safe <n>` for a stored result, `done <n>` before it is removed.
import { writeSync } from 'node:fs'
import { openSpool } from './opened-spool.ts'

const [dataDir = '', first = '0'] = process.argv.slice(2)
const say = (text: string) => writeSync(1, `${text}\n`)
const { spool } = await openSpool(dataDir, {
  memoryBounds: { results: 20, bytes: 100_000, unsafeBytes: 100_000 },
})

let number = Number(first)
for (let round = 0; ; round++) {
  const appended = Array.from({ length: 1 + (round % 7) }, async (_, at) => {
    const mine = number++
    // Some results are urgent, so that files vary in size.
    await spool.append(`{"number":${mine},"text":"${'x'.repeat(mine % 300)}"}`, at % 3 === 0)
    say(`safe ${mine}`)
  })
  await Promise.all(appended)
  if (round % 3 !== 0) continue
  for (const one of spool.takeRecent()) {
    for (const entry of one.entries ?? []) {
      say(`done ${(JSON.parse(entry) as { number: number }).number}`)
    }
    for (let left = one.results; left > 0; left--) await spool.forget(one)
  }
}
