// Aim: a supervisor that hangs does not keep its run.
import { expect, test } from 'vitest'
import { sandboxed } from '../support/sandbox/sandboxed.ts'
import { parentWithCommand, processesWith } from '../support/sandbox/stand-in.ts'

// The agent waits for its end for 20 s.
test('it is ended with its run, some time after', async () => {
  const stop = new AbortController()
  const end = await sandboxed({
    command: '/bin/sh',
    args: () => ['-c', 'echo $$; sleep 1000'],
    ask: { signal: 'SIGTERM', to: 'group', graceMs: 100 },
    signal: stop.signal,
    onOutput(chunk) {
      process.kill(parentWithCommand(Number(chunk.toString()), 'supervisor.ts'), 'SIGSTOP')
      stop.abort()
    },
  })
  expect(end).toMatchObject({ outcome: 'sandbox-failed', leftBehind: 0 })
  expect(end.problem).toContain('SIGKILL')
  expect(processesWith(end.folder)).toEqual([])
})
