// Uncaught faults. The state of the program after one cannot be trusted: the first is logged and the
// process ends. Their messages are never shown, since they may quote a secret: class, code and places are.
import { faultText, shownFault } from './fault.ts'
import type { FaultReports } from './reports.ts'
import type { Log } from '../log.ts'
import { EXIT } from '../exit-codes.ts'

/** Time for the log, which is written in the background, to get its last line out. */
const LAST_LINE_MS = 500

const SAID = 'a fault of the program itself ends it'

let handler: ((fault: unknown) => void) | undefined

/** Handles the first uncaught fault; Node reports unhandled rejections here, too. A new handler replaces the old. */
function onFirstUncaught(end: (fault: unknown) => void): void {
  if (handler !== undefined) process.off('uncaughtException', handler)
  let isEnding = false
  handler = (fault) => {
    if (isEnding) return
    isEnding = true
    end(fault)
  }
  process.on('uncaughtException', handler)
}

/**
 * Logs the first uncaught fault or unhandled rejection, reports it to `reports`, which may take 2 s, and ends
 * the process with exit code 1.
 */
export function endOnUncaught(log: Log, reports?: Pick<FaultReports, 'last'>): void {
  onFirstUncaught((fault) => {
    const reported = reports?.last(fault) ?? Promise.resolve()
    setTimeout(() => void reported.finally(() => process.exit(EXIT.failed)), LAST_LINE_MS)
    log.error({ fault: shownFault(fault) }, SAID)
  })
}

/** The same for commands without a log. */
export function printUncaught(complain: (text: string) => void): void {
  onFirstUncaught((fault) => {
    complain(`vedette: ${SAID}: ${faultText(fault)}`)
    process.exit(EXIT.failed)
  })
}
