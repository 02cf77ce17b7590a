// The memory of an idle agent on a monitors file, started as a user starts it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { temporaryFile } from '../support/temporary-folder.ts'

const PROGRAM = fileURLToPath(new URL('../../src/launch.js', import.meta.url))
const PATH = `${dirname(process.execPath)}:${process.env['PATH']}`
const IDLE_MIB_MAX = 100

/** Starts an agent, and ends it; resolves with its resident memory once it watched. MiB. */
async function memoryOfAgent(file: string): Promise<number> {
  const child = spawn(PROGRAM, ['agent'], {
    env: { PATH, MONITORS_FILE: file, AGENT_HEALTH_PORT: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const ended = once(child, 'close')
  let memory = ''
  for await (const line of createInterface({ input: child.stdout })) {
    if (!line.includes('"monitors loaded"')) continue
    memory = readFileSync(`/proc/${child.pid}/status`, 'utf8')
    child.kill('SIGTERM')
  }
  await ended
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(memory)?.[1]) / 1024
}

test(`an agent with one monitor needs less than ${IDLE_MIB_MAX} MiB`, async () => {
  const monitor = '{name: one, type: TCP, every: 1h, request: {hostname: 127.0.0.1, port: 9}}'
  const file = temporaryFile('monitors.yaml', `monitors:\n  - ${monitor}\n`)
  // The first start compiles, and at its end stores the compile cache for the next one.
  await memoryOfAgent(file)
  expect(await memoryOfAgent(file)).toBeLessThan(IDLE_MIB_MAX)
})
