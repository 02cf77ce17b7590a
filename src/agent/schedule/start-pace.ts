// Lets only so many jobs begin in one turn of the event loop: where hundreds become due at once, as after the
// first sync, each turn would otherwise begin and end all of them and hold everything else up.

/** Begun one after the other they take some milliseconds. */
const STARTS_PER_TURN = 24

/** Counts what begins. */
export interface StartPace {
  /** Undefined: it may begin now; else when its turn has come. First come, first served. */
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
