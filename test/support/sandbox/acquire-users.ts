// A process that acquires users for runs on request, like an agent, and starts nothing under them.
import { createInterface } from 'node:readline'
import { SandboxUsers } from '../../../src/sandbox/users.ts'

const [first = '', root = ''] = process.argv.slice(2)
const users = new SandboxUsers(Number(first), [root])
process.stdout.write('ready\n')
createInterface({ input: process.stdin }).on('line', (line) => {
  const [command, value] = line.split(' ')
  if (command === 'give-back') {
    users.giveBack(Number(value))
    process.stdout.write('done\n')
    return
  }
  const acquired = Array.from({ length: Number(value) }, () => users.acquire())
  process.stdout.write(`${JSON.stringify(acquired)}\n`)
})
