// The clocks of a machine, moved by hand.
import type { MachineClocks } from '../../src/agent/clock.ts'

export interface FakeClocks extends MachineClocks {
  /** Time passes, for both clocks. */
  pass(ms: number): void
  /** Somebody sets the wall clock, or the machine sleeps. */
  setWall(byMs: number): void
}

/** Clocks that stand until they are moved. */
export function fakeClocks(wallMs = 1_700_000_000_000): FakeClocks {
  let wall = wallMs
  let monotonic = 5000
  return {
    wallMs: () => wall,
    monotonicMs: () => monotonic,
    pass(ms) {
      wall += ms
      monotonic += ms
    },
    setWall(byMs) {
      wall += byMs
    },
  }
}
