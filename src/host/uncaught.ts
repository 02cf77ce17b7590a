// Faults that nobody caught. Whatever state they left behind is not to be trusted: the first is logged,
// without secrets, and the process ends.
import type { FaultReports } from './fault-reports.ts'
import type { Log } from './log.ts'

/** Time for the log, which is written in the background, to get its last line out. */
const LAST_LINE_MS = 500

/**
 * Logs the first uncaught fault or unhandled rejection, tells `reports` of it, which may take 2 s, and ends
 * the process with exit code 1.
 */
export function endOnUncaught(log: Log, reports?: Pick<FaultReports, 'last'>): void {
  let isEnding = false
  // Node brings rejections that nobody handles here too.
  process.on('uncaughtException', (fault: unknown) => {
    if (isEnding) return
    isEnding = true
    const told = reports?.last(fault) ?? Promise.resolve()
    setTimeout(() => void told.finally(() => process.exit(1)), LAST_LINE_MS)
    const err = fault instanceof Error ? fault : new Error(String(fault))
    log.error({ err }, 'a fault of the program itself ends it')
  })
}
