// Log of database outages: one line per period, regardless of the number of failed requests.
import type { Log } from '../../process/log.ts'

/** At most one line in this time. */
const QUIET_MS = 60_000

/** Logs the error of a statement that failed because the database did not answer. */
export type LogOutage = (error: unknown) => void

/** Makes the log of outages; `now` in milliseconds. */
export function createOutageLog(log: Pick<Log, 'warn'>, now = () => performance.now()): LogOutage {
  let loggedAtMs = -Infinity
  let failures = 0
  return (error) => {
    failures++
    if (now() - loggedAtMs < QUIET_MS) return
    // Where in the code it was noticed says nothing about the database.
    const reason = error instanceof Error ? error.message : String(error)
    log.warn({ reason, failures }, 'the database did not answer; requests get 503 until it does')
    loggedAtMs = now()
    failures = 0
  }
}
