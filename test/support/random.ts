// Random numbers that repeat for the same seed, so that a failed test can be reproduced.

/** Whole numbers below a bound. */
export interface Random {
  below(bound: number): number
}

/** The numbers of `seed` (mulberry32). */
export function randomFrom(seed: number): Random {
  let state = (seed + 1) * 0x9e37_79b9
  const next = () => {
    state = (state + 0x6d2b_79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  return { below: (bound) => Math.floor(next() * bound) }
}
