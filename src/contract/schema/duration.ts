// Times as results carry them.

/** Milliseconds rounded to whole microseconds: finer than that is noise, and costs bytes in every result. */
export function toMicroseconds(ms: number): number {
  return Math.round(ms * 1000) / 1000
}
