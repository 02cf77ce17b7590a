// Aim: the exit code of the real command line shows the verdict, whatever happens to its output; and every command
// finds its file and settings by the same rules.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { startVedette } from './support/platform/platform-process.ts'
import { temporaryFile, temporaryFolder } from './support/temporary-folder.ts'
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
  const file = temporaryFile('monitors.yaml', `monitors:\n${monitors.join('\n')}\n`)
  const child = spawn(process.execPath, [program, 'check', file, '--json'], {
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  child.stdout.destroy()
  let complaint = ''
  child.stderr.on('data', (text: Buffer) => (complaint += text.toString()))
  const [code] = await once(child, 'close')
  expect(complaint).toBe('')
  expect(code).toBe(exitCode)
})

test.each([
  ['validate', 0],
  ['validate /nowhere.yaml', 2],
])('where nobody reads what `vedette %s` says, it ends with %i', async (commandLine, exitCode) => {
  const child = spawn(process.execPath, [program, ...commandLine.split(' ')], {
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  child.stdout.destroy()
  child.stderr.destroy()
  expect(await once(child, 'close')).toEqual([exitCode, null])
})

/** A file with one monitor, whose address does not answer. */
const monitors = () =>
  temporaryFile(
    'mine.yaml',
    'monitors: [{id: mine, name: mine, type: TCP, request: {hostname: 127.0.0.1, port: 9}}]\n',
  )

describe('the path in the file that MONITORS_FILE_FILE names', () => {
  test('is used by validate', async () => {
    const path = temporaryFile('path.txt', `${monitors()}\n`)
    const { stdout, stderr } = await startVedette(['validate'], { MONITORS_FILE_FILE: path }).ended
    expect(stderr).toBe('')
    expect(stdout).toContain('mine.yaml: 1 monitor, no problem')
  })

  test('gives way to one that check is called with', async () => {
    const env = { MONITORS_FILE_FILE: temporaryFile('path.txt', '/nowhere.yaml\n') }
    const { stdout, stderr } = await startVedette(['check', monitors()], env).ended
    expect(stderr).toBe('')
    expect(stdout).toContain('mine')
  })

  test('cannot be read: start says so', async () => {
    const env = { MONITORS_FILE_FILE: '/nowhere.txt', DATA_DIR: temporaryFolder() }
    const { code, stderr } = await startVedette(['start'], env).ended
    expect([code, stderr.includes('MONITORS_FILE_FILE')]).toEqual([2, true])
  })
})

test.each([
  ['a monitor', ['validate', 'FILE'], {}, 'tcp'],
  ['a file', ['validate', '/nowhere.yaml'], {}, 'monitors'],
  ['settings of the agent', ['agent'], { AGENT_HEALTH_PORT: 'x' }, 'agent'],
  ['settings of the platform', ['platform'], { PORT: 'x' }, 'platform'],
])('an error about %s names a page, which help prints', async (_, args, env, topic) => {
  const broken = 'monitors: [{name: mine, type: TCP, request: {hostname: 127.0.0.1}}]\n'
  const file = temporaryFile('mine.yaml', broken)
  const named = args.map((one) => (one === 'FILE' ? file : one))
  const { code, stderr } = await startVedette(named, env).ended
  expect([code, stderr]).toEqual([2, expect.stringContaining(`See: vedette help ${topic}\n`)])
  const { code: printed, stdout } = await startVedette(['help', topic], {}).ended
  expect([printed, stdout]).toEqual([0, expect.stringMatching(/^.+\n=+\n/)])
})
