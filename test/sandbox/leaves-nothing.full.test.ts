// Runs of user code leave no process, descriptor or folder. The long form is `npm run bench code-soak`.
import { existsSync, readdirSync } from 'node:fs'
import { afterAll, expect, test } from 'vitest'
import { multistep } from '../../src/monitors/multistep/index.ts'
import { Descendants } from '../../src/sandbox/supervisor/processes.ts'
import { testScriptHost } from '../support/scripts/script-host.ts'
import { runScriptMonitor } from '../support/scripts/script-runs.ts'

const host = testScriptHost()
afterAll(() => host.close())

const script = `const { spawn } = require('node:child_process')
spawn('sleep', ['1000'], { detached: true, stdio: 'ignore' }).unref()
console.log('hello')
`

async function run(): Promise<void> {
  const { codes, workRoot } = await runScriptMonitor(multistep, { script }, { host })
  expect(codes).toEqual([])
  expect(existsSync(workRoot) ? readdirSync(workRoot) : []).toEqual([])
}

const descendants = new Descendants(() => undefined, process.pid)
const standing = () => ({
  descriptors: readdirSync('/proc/self/fd').length,
  processes: descendants.look(true).length,
})

/** Nothing stands but the supervisor that waits for the next run, and its launcher. */
const settled = () => expect.poll(() => standing().processes).toBe(2)

test('what stands after two runs stands after eight', async () => {
  await Promise.all([run(), run()])
  await settled()
  const { descriptors } = standing()
  for (let round = 0; round < 3; round++) await Promise.all([run(), run()])
  await settled()
  await expect.poll(() => standing().descriptors).toBeLessThanOrEqual(descriptors)
})
