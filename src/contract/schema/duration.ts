// Times as results carry them.

/** Milliseconds rounded to whole microseconds: finer than that is noise, and costs bytes in every result. */
export function toMicroseconds(ms: number): number {
  return Math.round(ms * 1000) / 1000
}

/** Rounds every duration of `phases` to whole microseconds. */
export function roundPhases(phases: object): void {
  const durations = phases as Record<string, number | undefined>
  for (const [name, ms] of Object.entries(durations)) {
    if (ms !== undefined) durations[name] = toMicroseconds(ms)
  }
}
