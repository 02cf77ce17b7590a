// Warnings of what happens again and again: each kind at most once a minute, with how many there were.
import type { Log } from './log.ts'

const QUIET_MS = 60_000
/** Kinds that are remembered; beyond, all are forgotten and may be logged again. */
const KINDS_MAX = 10_000

/** Warns of one event or of `count` of them; `key` identifies their kind. */
export type LogRepeated = (
  key: string,
  facts: Record<string, unknown>,
  message: string,
  count?: number,
) => void

/** Makes the log; `now` in milliseconds. */
export function createRepeatedLog(
  log: Pick<Log, 'warn'>,
  now = () => performance.now(),
): LogRepeated {
  const kinds = new Map<string, { loggedAtMs: number; count: number }>()
  return (key, facts, message, count = 1) => {
    const kind = kinds.get(key) ?? { loggedAtMs: -Infinity, count: 0 }
    if (!kinds.has(key) && kinds.size >= KINDS_MAX) kinds.clear()
    kinds.set(key, kind)
    kind.count += count
    if (now() - kind.loggedAtMs < QUIET_MS) return
    log.warn({ ...facts, count: kind.count }, message)
    kind.loggedAtMs = now()
    kind.count = 0
  }
}
