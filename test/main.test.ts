// Aim: the exit code of the real command line shows the verdict, whatever happens to its output; and every command
// finds its file and settings by the same rules.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, test } from 'vitest'
import { temporaryFile } from './support/agent/agent-process.ts'
import { startScript, startVedette } from './support/platform/platform-process.ts'
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
])('where nobody reads what `vedette %s` says, it ends with %i', async (commandLine, exitCode) => {
  const child = spawn(process.execPath, [program, ...commandLine.split(' ')], {
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  child.stdout.destroy()
  child.stderr.destroy()
  expect(await once(child, 'close')).toEqual([exitCode, null])
})

const cleanUps: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp()
})

async function madeFile(name: string, text: string): Promise<string> {
  const made = await temporaryFile(name, text)
  cleanUps.push(() => made.remove())
  return made.path
}

/** A separate folder and free ports. */
async function ofItsOwn() {
  const folder = await mkdtemp(join(tmpdir(), 'vedette-start-'))
  cleanUps.push(() => rm(folder, { recursive: true, force: true }))
  return { DATA_DIR: folder, PORT: '0', AGENT_HEALTH_PORT: '0' }
}

/** A file with one monitor, whose address does not answer. */
const monitors = () =>
  madeFile(
    'mine.yaml',
    'monitors: [{id: mine, name: mine, type: TCP, request: {hostname: 127.0.0.1, port: 9}}]\n',
  )

describe('the path in the file that MONITORS_FILE_FILE names', () => {
  test.each([
    ['validate', 'mine.yaml: 1 monitor, no problem'],
    ['check', 'mine'],
  ])('is used by %s', async (command, expected) => {
    const path = await madeFile('path.txt', `${await monitors()}\n`)
    const { stdout, stderr } = await startVedette([command], { MONITORS_FILE_FILE: path }).ended
    expect(stderr).toBe('')
    expect(stdout).toContain(expected)
  })

  test('is used by start, as are other settings in files', async () => {
    const env = {
      MONITORS_FILE_FILE: await madeFile('path.txt', `${await monitors()}\n`),
      LOG_RESULTS_FILE: await madeFile('which.txt', 'changes\n'),
      ...(await ofItsOwn()),
    }
    const started = startVedette(['start'], env)
    await started.line(/"monitorName":"mine"/)
    started.kill('SIGTERM')
    expect(await started.ended).toMatchObject({ code: 0, stderr: '' })
  })

  test.each(['validate', 'check'])('gives way to one that %s is called with', async (command) => {
    const env = { MONITORS_FILE_FILE: await madeFile('path.txt', '/nowhere.yaml\n') }
    const { stdout, stderr } = await startVedette([command, await monitors()], env).ended
    expect(stderr).toBe('')
    expect(stdout).toContain('mine')
  })

  test.each(['validate', 'check', 'start'])('%s says when it cannot be read', async (command) => {
    const env = { MONITORS_FILE_FILE: '/nowhere.txt', ...(await ofItsOwn()) }
    const { code, stderr } = await startVedette([command], env).ended
    expect([code, stderr.includes('MONITORS_FILE_FILE')]).toEqual([2, true])
  })
})

test.each(['SIGINT', 'SIGTERM'] as const)('npm start ends by a %s to npm alone', async (signal) => {
  const started = startScript('start', { MONITORS_FILE: await monitors(), ...(await ofItsOwn()) })
  await started.line(/"msg":"agent started"/)
  started.kill(signal)
  // Output is at its end when the last process that holds it has ended.
  const { stdout } = await started.ended
  expect(stdout).toContain('"msg":"platform stopped"')
})
