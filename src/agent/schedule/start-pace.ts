// Start pace: limits the jobs that begin in one turn of the event loop. Where hundreds become due at once, as after
// the first sync, they would otherwise block everything else.

/** Starting these takes some milliseconds. */
const STARTS_PER_TURN = 24

/** Limits starts. */
export interface StartPace {
  /** Undefined: begin now; else resolves when the turn has come. First come, first served. */
  turn(): Promise<void> | undefined
}

/** Makes a pace. */
export function createStartPace(startsPerTurn = STARTS_PER_TURN): StartPace {
  const line: (() => void)[] = []
  let started = 0
  const next = () => {
    const some = line.splice(0, startsPerTurn)
    started = some.length
    if (started > 0) setImmediate(next)
    for (const begin of some) begin()
  }
  return {
    turn() {
      if (started === 0) setImmediate(next)
      if (started < startsPerTurn) {
        started++
        return undefined
      }
      return new Promise((resolve) => line.push(resolve))
    },
  }
}
