// The clocks of a machine, moved by the test.
import type { MachineClocks } from '../../src/agent/schedule/clock.ts'

export interface FakeClocks extends MachineClocks {
  /** Time passes, for both clocks. */
  pass(ms: number): void
  /** Time passes while the thread is busy. */
  work(ms: number): void
  /** Sets the wall clock. */
  setWall(byMs: number): void
  /** The machine sleeps: the monotonic clock stands, the others go on. */
  sleep(ms: number): void
}

/** Clocks that stand until they are moved. */
export function fakeClocks(wallMs = 1_700_000_000_000): FakeClocks {
  let wall = wallMs
  let monotonic = 5000
  let slept = 0
  let busy = 0
  return {
    wallMs: () => wall,
    monotonicMs: () => monotonic,
    uptimeMs: () => 60_000 + monotonic + slept,
    busyMs: () => busy,
    work(ms) {
      this.pass(ms)
      busy += ms
    },
    pass(ms) {
      wall += ms
      monotonic += ms
    },
    setWall(byMs) {
      wall += byMs
    },
    sleep(ms) {
      wall += ms
      slept += ms
    },
  }
}
