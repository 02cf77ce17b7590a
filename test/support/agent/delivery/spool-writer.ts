// A process that appends results to a spool and removes some of them until it is killed. It reports on standard
// output: `safe <n>` when a result is stored, `done <n>` before it is removed.
import { writeSync } from 'node:fs'
import { createAgentCipher } from '../../../../src/agent/delivery/spool/agent-cipher.ts'
import type { StoredResults } from '../../../../src/agent/delivery/stored-results.ts'
import { openSpool } from '../../../../src/agent/delivery/spool/spool.ts'
import { createLog } from '../../../../src/process/log.ts'

const [folder = '', first = '0'] = process.argv.slice(2)
const say = (text: string) => writeSync(1, `${text}\n`)
const log = createLog({ level: 'error', pretty: false, destination: { write: say } })
const stored: StoredResults[] = []
const spool = await openSpool({
  folder,
  cipher: createAgentCipher('pl_killed_again'),
  bytesMax: 64 * 1024 * 1024,
  log,
  isHeld: () => true,
  onStored: (one) => stored.push(one),
})

let number = Number(first)
for (let round = 0; ; round++) {
  const appended = Array.from({ length: 1 + (round % 7) }, async (_, at) => {
    const mine = number++
    // Some results are urgent, so that frames vary in size.
    await spool.append(`{"number":${mine},"text":"${'x'.repeat(mine % 300)}"}`, at % 3 === 0)
    say(`safe ${mine}`)
  })
  await Promise.all(appended)
  const done = stored.splice(0).filter((_, at) => (at + round) % 3 === 0)
  for (const entry of done.flatMap(({ entries }) => entries)) {
    say(`done ${(JSON.parse(entry) as { number: number }).number}`)
  }
  await spool.forget(done)
  if (round % 5 === 0) {
    const old = await spool.next()
    if (old !== undefined) spool.giveBack(old)
  }
}
