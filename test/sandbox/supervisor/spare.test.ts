// Aim: an agent that can open no more descriptors cannot start a supervisor, says so, and lives on.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const SOURCE = join(import.meta.dirname, '../../../src/sandbox/supervisor/spare.ts')
const PROGRAM = `import { openSync } from 'node:fs'
import { mock } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { SpareSupervisor } from '${SOURCE}'
mock.timers.enable({ apis: ['setTimeout'] })
const spare = new SpareSupervisor()
try { for (;;) openSync('/dev/null') } catch {}
try { spare.acquire() } catch (error) { console.log(error.message) }
spare.prepare()
mock.timers.tick(1000)
// The system's own report comes a moment later.
await setImmediate()
console.log('lives')
spare.close()`

test('without descriptors there is no supervisor, and the agent does not end for it', async () => {
  const run = promisify(execFile)
  const script = 'ulimit -n 64; exec "$0" --input-type=module -e "$1"'
  const { stdout } = await run('/bin/sh', ['-c', script, process.execPath, PROGRAM])
  expect(stdout).toMatch(/descriptors.*\nlives\n/)
})
