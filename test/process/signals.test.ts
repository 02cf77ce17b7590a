// The first signal stops, the second ends at once, SIGHUP reloads.
import { EventEmitter } from 'node:events'
import { expect, test, vi } from 'vitest'
import { onSignals } from '../../src/process/signals.ts'

function setUp() {
  const source = new EventEmitter()
  const actions = {
    stop: vi.fn<(signal: string) => void>(),
    reload: vi.fn<() => void>(),
    exit: vi.fn<(code: number) => void>(),
  }
  const clock = { now: 0 }
  const off = onSignals(actions, source, () => clock.now)
  return { source, off, clock, ...actions }
}

test.each([
  ['SIGTERM twice', 'SIGTERM', 'SIGTERM', 0, [[143]]],
  ['SIGINT after SIGTERM', 'SIGTERM', 'SIGINT', 0, [[130]]],
  ['SIGINT twice', 'SIGINT', 'SIGINT', 301, [[130]]],
  ['one Ctrl-C, which npm forwards and counts once', 'SIGINT', 'SIGINT', 100, []],
])('the first stops in its own tick; the second ends: %s', (_, first, second, laterMs, exits) => {
  const { source, stop, exit, clock } = setUp()
  source.emit(first)
  expect(stop.mock.calls).toEqual([[first]])
  expect(exit).not.toHaveBeenCalled()
  clock.now += laterMs
  source.emit(second)
  expect(stop).toHaveBeenCalledTimes(1)
  expect(exit.mock.calls).toEqual(exits)
})

test('SIGHUP reloads, as often as it arrives', () => {
  const { source, reload, stop } = setUp()
  source.emit('SIGHUP')
  source.emit('SIGHUP')
  expect(reload).toHaveBeenCalledTimes(2)
  expect(stop).not.toHaveBeenCalled()
})

test('a second signal ends with its code also after the work; else no listener remains', () => {
  const { source, exit, off } = setUp()
  source.emit('SIGTERM')
  off()
  source.emit('SIGTERM')
  expect(exit.mock.calls).toEqual([[143]])
  const other = setUp()
  other.off()
  expect(other.source.eventNames()).toEqual([])
})
