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

test('the first SIGTERM stops, in its own tick', () => {
  const { source, stop, exit } = setUp()
  source.emit('SIGTERM')
  expect(stop.mock.calls).toEqual([['SIGTERM']])
  expect(exit).not.toHaveBeenCalled()
})

test.each([
  ['SIGTERM twice', 'SIGTERM', 'SIGTERM', 0, 143],
  ['SIGINT after SIGTERM', 'SIGTERM', 'SIGINT', 0, 130],
  ['SIGINT twice', 'SIGINT', 'SIGINT', 301, 130],
])('%s ends with 128 + the number of the second', (_, first, second, laterMs, code) => {
  const { source, stop, exit, clock } = setUp()
  source.emit(first)
  clock.now += laterMs
  source.emit(second)
  expect(stop).toHaveBeenCalledTimes(1)
  expect(exit.mock.calls).toEqual([[code]])
})

test('one Ctrl-C from the terminal that npm forwards counts once', () => {
  const { source, stop, exit, clock } = setUp()
  source.emit('SIGINT')
  clock.now += 100
  source.emit('SIGINT')
  expect(stop).toHaveBeenCalledTimes(1)
  expect(exit).not.toHaveBeenCalled()
})

test('SIGHUP reloads, as often as it arrives', () => {
  const { source, reload, stop } = setUp()
  source.emit('SIGHUP')
  source.emit('SIGHUP')
  expect(reload).toHaveBeenCalledTimes(2)
  expect(stop).not.toHaveBeenCalled()
})

test('no listener remains afterwards', () => {
  const { source, off } = setUp()
  off()
  expect(source.eventNames()).toEqual([])
})

test('a second signal ends with its code also when the work has ended meanwhile', () => {
  const { source, exit, off } = setUp()
  source.emit('SIGTERM')
  off()
  source.emit('SIGTERM')
  expect(exit.mock.calls).toEqual([[143]])
})
