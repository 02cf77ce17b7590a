// Bytes and times as text for messages: `6.8 GiB`, `4 min`.

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const

/**
 * Bytes in the largest unit of which there is one, with two decimals at most. What was used is rounded up, so
 * that what is over a limit never reads like the limit.
 */
export function bytesText(bytes: number, rounded: 'near' | 'up' = 'near'): string {
  let power = 0
  while (power < UNITS.length - 1 && bytes >= 1024 ** (power + 1)) power++
  const hundredths = (bytes / 1024 ** power) * 100
  return `${(rounded === 'up' ? Math.ceil(hundredths) : Math.round(hundredths)) / 100} ${UNITS[power]}`
}

const SECOND_MS = 1000
const MINUTE_MS = 60 * SECOND_MS

/** A time: `250 ms`, `12.5 s`, `4 min`, `1 h 30 min`. */
export function durationText(ms: number): string {
  if (ms < SECOND_MS) return `${ms} ms`
  if (ms < MINUTE_MS) return `${ms / SECOND_MS} s`
  const seconds = Math.round(ms / SECOND_MS)
  const parts = [
    [Math.floor(seconds / 3600), 'h'],
    [Math.floor(seconds / 60) % 60, 'min'],
    [seconds % 60, 's'],
  ] as const
  return parts
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count} ${unit}`)
    .join(' ')
}

/** `1 problem`, `2 problems`. */
export function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`
}
