// Uncaught faults. The state of the program after one cannot be trusted: the first is logged and the
// process ends. Their messages are never shown, since they may quote a secret: class, code and places are.
import type { FaultReports } from './reports.ts'
import type { Log } from '../log.ts'

/** Time for the log, which is written in the background, to get its last line out. */
const LAST_LINE_MS = 500
const PLACES_MAX = 20

const SAID = 'a fault of the program itself ends it'

/** What may be shown of a fault. */
export interface ShownFault {
  class: string
  code?: string
  /** Places in files, the innermost first: `file:///…/main.ts:1:2`. */
  at: string[]
}

/** What may be shown of whatever was thrown. Never throws. */
export function shownFault(fault: unknown): ShownFault {
  if (!(fault instanceof Error)) return { class: typeof fault, at: [] }
  const { code } = fault as NodeJS.ErrnoException
  return {
    class: /^\w{1,40}$/.exec(fault.constructor.name)?.[0] ?? 'Error',
    ...(typeof code === 'string' && /^[A-Z][A-Z\d_]{1,60}$/.test(code) && { code }),
    at: placesOf(fault),
  }
}

/** Lines of a message may look like places: the message is cut off, and where that fails, so is the stack. */
function placesOf({ message, stack = '' }: Error): string[] {
  const at = stack.indexOf(message)
  if (at === -1) return []
  const places = stack
    .slice(at + message.length)
    .matchAll(/^ {4}at (?:.* \()?((?:file:\/\/|node:|\/)[^\s()]*:\d+:\d+)\)?$/gm)
  return Array.from(places, ([, place = '']) => place).slice(0, PLACES_MAX)
}

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
    setTimeout(() => void reported.finally(() => process.exit(1)), LAST_LINE_MS)
    log.error({ fault: shownFault(fault) }, SAID)
  })
}

/** The same for commands without a log. */
export function printUncaught(complain: (text: string) => void): void {
  onFirstUncaught((fault) => {
    const { class: name, code, at } = shownFault(fault)
    const title = code === undefined ? name : `${name} ${code}`
    complain(`vedette: ${SAID} (${title})\n${at.map((one) => `    at ${one}\n`).join('')}`)
    process.exit(1)
  })
}
