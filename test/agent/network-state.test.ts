// The agent checks its own network, warns once however many results complain, and reports the end once.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createNetworkState, type LookAtNetwork } from '../../src/agent/network-state.ts'
import { failure, type FailureCode, type NetworkProblem } from '../../src/contract/failure.ts'
import { collectingLog } from '../support/collecting-log.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** A state whose checks find `now.problem`. */
function setUp() {
  const { log, lines } = collectingLog()
  const now = { problem: undefined as NetworkProblem | undefined, looks: [] as NetworkProblem[] }
  const look: LookAtNetwork = (problem) => {
    now.looks.push(problem)
    return Promise.resolve(now.problem)
  }
  const changes = vi.fn<() => void>()
  const state = createNetworkState(log, changes, look)
  const saw = (...codes: FailureCode[]) => {
    for (const code of codes) state.saw({ failures: [failure(code, code)] })
    return vi.advanceTimersByTimeAsync(0)
  }
  const levels = () => lines.map((line) => (JSON.parse(line) as { level: string }).level)
  return { state, now, saw, changes, levels, pass: () => vi.advanceTimersByTimeAsync(5000) }
}

test('one warning for twenty errored results, one line when the network works again', async () => {
  const { state, now, saw, changes, levels, pass } = setUp()
  now.problem = 'RESOLVER_UNREACHABLE'
  await saw(...Array.from({ length: 20 }, () => 'RESOLVER_UNREACHABLE' as const))
  expect(state.code).toBe('RESOLVER_UNREACHABLE')
  expect(state.warnings()).toEqual([expect.stringContaining('RESOLVER_UNREACHABLE')])
  expect(state.facts()).toMatchObject({ problem: 'RESOLVER_UNREACHABLE' })
  await pass()
  await saw('RESOLVER_UNREACHABLE')
  now.problem = undefined
  await pass()
  await pass()
  expect(state.code).toBeUndefined()
  expect(state.warnings()).toEqual([])
  expect(state.facts()).toBeNull()
  expect(levels()).toEqual(['warn', 'info'])
  expect(changes).toHaveBeenCalledTimes(2)
  expect(now.looks).toHaveLength(3)
})

test('a result about a moment that is over warns of nothing', async () => {
  const { state, saw, changes, levels } = setUp()
  await saw('NETWORK_UNREACHABLE')
  expect(state.code).toBeUndefined()
  expect(levels()).toEqual([])
  expect(changes).not.toHaveBeenCalled()
})

test('results about targets, or about other faults of ours, lead to no look', async () => {
  const { now, saw } = setUp()
  await saw('CONNECT_UNREACHABLE', 'DNS_SERVER_FAILED', 'PROXY_UNREACHABLE')
  expect(now.looks).toEqual([])
})

test('another problem in its place is the same outage', async () => {
  const { state, now, saw, changes, levels, pass } = setUp()
  now.problem = 'RESOLVER_UNREACHABLE'
  await saw('RESOLVER_UNREACHABLE')
  const since = state.facts()?.since
  now.problem = 'NETWORK_UNREACHABLE'
  await pass()
  expect(state.facts()).toEqual({ problem: 'NETWORK_UNREACHABLE', since })
  expect(levels()).toEqual(['warn'])
  expect(changes).toHaveBeenCalledTimes(2)
})

test('stopped, it looks no more', async () => {
  const { state, now, saw, pass } = setUp()
  now.problem = 'NETWORK_UNREACHABLE'
  await saw('NETWORK_UNREACHABLE')
  state.stop()
  await pass()
  expect(now.looks).toHaveLength(1)
})
