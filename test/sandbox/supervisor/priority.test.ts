// Aim: user code ranks behind the agent, in whichever session it runs, so that monitors of the agent are punctual.
import { existsSync } from 'node:fs'
import { getPriority } from 'node:os'
import { expect, test } from 'vitest'
import { sandboxed } from '../../support/sandbox/sandboxed.ts'

const LEVEL = Math.min(19, getPriority() + 10)
/** Prints the level of its process, and of its session as soon as that has one. */
const REPORTS_PRIORITY = `const fs = require('node:fs')
console.log('process', require('node:os').getPriority())
const levelOf = () => Number(fs.readFileSync('/proc/self/autogroup', 'utf8').split('nice ')[1])
const look = () => (levelOf() === 0 ? setTimeout(look, 10) : console.log('session', levelOf()))
if (fs.existsSync('/proc/self/autogroup')) look()`

const DETACHED = `require('node:child_process').spawn(process.execPath, ['-e', process.argv[1]], { detached: true, stdio: 'inherit' })`

test.for([
  ['the command', `eval(process.argv[1])`],
  ['a process with a session of its own', DETACHED],
] as const)('%s ranks behind the agent', async ([, script]) => {
  const end = await sandboxed({ args: () => ['-e', script, REPORTS_PRIORITY] })
  const session = existsSync('/proc/self/autogroup') ? 'session 10\n' : ''
  expect(end.tail.stdout).toBe(`process ${LEVEL}\n${session}`)
})
