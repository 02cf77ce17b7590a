// Outcomes on two runtimes are compared, and a place that monitors share changes only if all of them agree.
import { describe, expect, test } from 'vitest'
import { compare } from '../../../src/cli/migrate/trials.ts'
import {
  type Candidate,
  type Comparison,
  type MigrationState,
  planOf,
} from '../../../src/cli/migrate/migration.ts'
import type { Failure } from '../../../src/contract/failure.ts'
import { Monitor } from '../../../src/contract/monitor.ts'
import { verdictOf } from '../../../src/agent/run/verdict.ts'
import type { Result } from '../../../src/contract/result.ts'

const MOVE = { from: '2024.09', to: '2026.04' }
const monitor = Monitor.parse({
  id: 'shop',
  name: 'Shop',
  checkType: 'BROWSER',
  activated: false,
  retryStrategy: { type: 'FIXED', baseBackoffSeconds: 1, maxRetries: 2 },
})

const failed = (message: string, details: Record<string, unknown> = {}): Failure[] => [
  { code: 'SCRIPT_FAILED', message, details },
]
const errored = (message: string): Failure[] => [{ code: 'SCRIPT_INVALID', message }]

/** Fakes runs with these failures, one entry for each run. */
function runsOf(...ends: Failure[][]) {
  const asked: Monitor[] = []
  const run = (one: Monitor): Promise<Result> => {
    const failures = ends[asked.length] ?? []
    asked.push(one)
    const verdict = verdictOf(failures, false)
    const result = { verdict, failures, durationMs: 100, attempts: [], artifacts: [] }
    return Promise.resolve(result as unknown as Result)
  }
  return { run, asked }
}

const at = (line: number) => ({ test: 'shop', file: 'shop.spec.ts', line })
const going = new AbortController().signal

describe('two runtimes', () => {
  /** The same failures in both rounds. */
  const twice = (...round: Failure[][]) => [...round, ...round]
  const inFolder = (run: string) => failed(`no /tmp/vedette-run-${run}/project/a.json`)
  test.each<[string, Failure[][], MigrationState, number]>([
    ['pass', [[], []], 'agrees', 2],
    ['fail in the same line', [failed('a', at(3)), failed('b', at(3))], 'agrees', 2],
    ['fail in different lines', twice(failed('a', at(3)), failed('a', at(4))), 'differs', 4],
    ['fail with different messages only', twice(failed('a'), failed('b')), 'differs', 4],
    ['differ twice', twice([], failed('a')), 'differs', 4],
    ['differ once', [[], failed('a'), [], []], 'flaky', 4],
    ['change places', [[], failed('a'), failed('a'), []], 'flaky', 4],
    ['name the folders of the runs', [inFolder('Ab12_x'), inFolder('Cd34_y')], 'agrees', 2],
    ['cannot load it', [errored('no axios'), errored('no axios')], 'not-run', 2],
    ['cannot run it, each for a reason', twice(errored('no a'), errored('no b')), 'not-run', 4],
    ['cannot load it on the new one', twice([], errored('no axios')), 'differs', 4],
  ])('%s', async (_, ends, state, runs) => {
    const { run, asked } = runsOf(...ends)
    const comparison = await compare({ monitor }, MOVE, run, going)
    expect(comparison?.state).toBe(state)
    const ids = asked.map(({ runtimeId }) => runtimeId)
    expect(ids).toEqual(['2024.09', '2026.04', '2024.09', '2026.04'].slice(0, runs))
    expect(asked.every((one) => one.retryStrategy === null)).toBe(true)
  })

  test('the first line of each error is shown with its runtime', async () => {
    const { run } = runsOf([], failed('\u001B[2mBroken\nat x'), [], failed('\u001B[2mBroken\nat y'))
    const comparison = await compare({ monitor }, MOVE, run, going)
    expect(comparison?.notes).toContain('on 2026.04: SCRIPT_FAILED: [2mBroken')
  })

  test('the time of an API monitor is that of its scripts as well', async () => {
    const result = { verdict: 'passed', checkType: 'API', failures: [], responseTimeMs: 50 }
    const run = () => Promise.resolve({ ...result, durationMs: 100 } as unknown as Result)
    expect(await compare({ monitor }, MOVE, run, going)).toMatchObject({
      to: [{ durationMs: 100 }],
    })
  })

  test('a monitor with a missing requirement is not run', async () => {
    const { run, asked } = runsOf()
    const comparison = await compare({ monitor, missing: 'no value for TOKEN' }, MOVE, run, going)
    expect(comparison).toMatchObject({ state: 'not-run', notes: ['no value for TOKEN'] })
    expect(asked).toEqual([])
  })

  test('an interrupted comparison says nothing', async () => {
    const { run } = runsOf([], [])
    expect(await compare({ monitor }, MOVE, run, AbortSignal.abort())).toBeUndefined()
  })
})

const compared = (state: MigrationState, candidate: Partial<Candidate>): Comparison => ({
  candidate: { monitor, ...candidate },
  state,
  from: [],
  to: [],
  notes: [],
})

describe('the plan', () => {
  const own = { key: '12', label: 'file:12' }
  const group = { key: '3', label: 'file:3' }

  test('the place of a monitor that agrees is written, and that of one that differs stays', () => {
    const two = [compared('agrees', { place: own }), compared('flaky', { place: group })]
    expect(planOf([...two, compared('agrees', {})])).toMatchObject({
      write: [own],
      unchanged: [{ place: group, why: '“Shop” is flaky' }],
    })
  })

  test('a place that is the monitor itself is named once', () => {
    const place = { key: 'check 12', label: '“Shop”' }
    const { unchanged } = planOf([compared('differs', { place })])
    expect(unchanged).toEqual([{ place, why: 'it differs' }])
  })

  test.each<[MigrationState, number]>([
    ['agrees', 1],
    ['differs', 0],
    ['not-run', 0],
  ])('of a group, where the last of its monitors %s', (state, count) => {
    const plan = planOf([compared('agrees', { place: group }), compared(state, { place: group })])
    expect(plan.write).toHaveLength(count)
  })

  test('a place with an obstacle stays', () => {
    const obstacle = 'another inherits it from there'
    const plan = planOf([compared('agrees', { place: { ...group, obstacle } })])
    expect(plan).toMatchObject({ write: [], unchanged: [{ why: obstacle }] })
  })
})
