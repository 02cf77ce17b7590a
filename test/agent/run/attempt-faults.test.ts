// Aim: of all failures of runs only defects of the agent itself are reported; never a verdict about a target,
// invalid settings, or a missing requirement of the machine.
import { describe, expect, test } from 'vitest'
import { createClock } from '../../../src/agent/schedule/clock.ts'
import { ownFault } from '../../../src/agent/run/attempt.ts'
import { createRunner } from '../../../src/agent/run/runner.ts'
import { failure, FAILURES, type FailureCode } from '../../../src/contract/failure.ts'
import type { Fault } from '../../../src/process/faults/fault.ts'
import type { Dialler } from '../../../src/network/dial.ts'
import { aMonitor, fakeType, type FakeRun } from '../../support/agent/fake-monitors.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const codes = Object.keys(FAILURES) as FailureCode[]

test('two codes stand for mistakes of ours', () => {
  const own = codes.filter((code) => ownFault(failure(code, 'x'), 'TCP') !== undefined)
  expect(own).toEqual(['DEADLINE_IGNORED', 'INTERNAL'])
})

describe('the runner', () => {
  const workRoot = temporaryFolder()

  async function faultsOf(end: (run: FakeRun) => void): Promise<Fault[]> {
    const fake = fakeType()
    const faults: Fault[] = []
    const settings = { types: fake.types, clock: createClock(), workRoot, scrubHeaders: [] }
    const runner = createRunner({ ...settings, onFault: (fault) => faults.push(fault) })
    const around = { location: 'office', variables: [], dial: {} as Dialler, secrets: [] }
    const running = runner.run(
      { monitor: aMonitor('a'), slot: 0 },
      around,
      new AbortController().signal,
    )
    end(await fake.next())
    await running
    return faults
  }

  test('reports the error that a monitor throws, with its place', async () => {
    const faults = await faultsOf((run) => run.fail(new TypeError('x is not a function')))
    expect(faults).toMatchObject([{ class: 'TypeError', code: 'INTERNAL' }])
    expect(faults[0]?.text).not.toContain('not a function')
    expect(faults[0]?.at[0]).toContain('attempt-faults.test.ts')
  })
})
