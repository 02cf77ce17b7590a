// Tells the log that the database is away: one line, however many requests find that out.
import type { Log } from '../../process/log.ts'

/** At most one line in this time. */
const QUIET_MS = 60_000

/** Takes what a statement threw because the database did not answer. */
export type LogOutage = (error: unknown) => void

/** Makes the log of outages; `now` in milliseconds. */
export function createOutageLog(log: Pick<Log, 'warn'>, now = () => performance.now()): LogOutage {
  let toldAt = -Infinity
  let failures = 0
  return (error) => {
    failures++
    if (now() - toldAt < QUIET_MS) return
    // Where in the code it was noticed says nothing about the database.
    const reason = error instanceof Error ? error.message : String(error)
    log.warn({ reason, failures }, 'the database did not answer; requests are told to come again')
    toldAt = now()
    failures = 0
  }
}
