// A process that takes users for runs when it is told to, as an agent does, and starts nothing under them.
import { createInterface } from 'node:readline'
import { SandboxUsers } from '../../../src/sandbox/users.ts'

const [first = '', root = ''] = process.argv.slice(2)
const users = new SandboxUsers(Number(first), [root])
process.stdout.write('ready\n')
createInterface({ input: process.stdin }).on('line', (line) => {
  const [word, value] = line.split(' ')
  if (word === 'give-back') {
    users.giveBack(Number(value))
    process.stdout.write('done\n')
    return
  }
  const taken = Array.from({ length: Number(value) }, () => users.acquire())
  process.stdout.write(`${JSON.stringify(taken)}\n`)
})
