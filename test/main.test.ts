// Aim: the exit code of the real command line tells the verdict, whatever becomes of its output.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { temporaryFile } from './support/agent-process.ts'
import { startHttpServer } from './support/test-server.ts'

const program = fileURLToPath(new URL('../src/launch.js', import.meta.url))

test.each([
  ['what passed has passed', 200, 0],
  ['what failed has failed', 500, 1],
])('where nobody reads the output any more, %s', async (_, status, exitCode) => {
  await using server = await startHttpServer((__, response) => response.writeHead(status).end())
  const url = `http://${server.authority}/`
  const monitors = ['a', 'b', 'c'].map(
    (name) => `  - {name: ${name}, type: URL, request: {url: "${url}"}}`,
  )
  const file = await temporaryFile('monitors.yaml', `monitors:\n${monitors.join('\n')}\n`)
  const child = spawn(process.execPath, [program, 'check', file.path, '--json'], {
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  child.stdout.destroy()
  let complaint = ''
  child.stderr.on('data', (text: Buffer) => (complaint += text.toString()))
  const [code] = await once(child, 'close')
  await file.remove()
  expect(complaint).toBe('')
  expect(code).toBe(exitCode)
})

test.each([
  ['--help', 0],
  ['start --help', 0],
  ['validate', 0],
  ['validate /nowhere.yaml', 2],
  ['start --nowhere', 2],
])('where nobody reads what `vedette %s` says, it ends with %i', async (words, exitCode) => {
  const child = spawn(process.execPath, [program, ...words.split(' ')], {
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  child.stdout.destroy()
  child.stderr.destroy()
  expect(await once(child, 'close')).toEqual([exitCode, null])
})
