// Faults of the program itself: the fault and the outcome of its report.

/** An error of the program itself, without values: what may be logged and reported of it. */
export class Fault {
  readonly class: string
  /** Places in files, the innermost first: `file:///…/main.ts:1:2`. */
  readonly at: readonly string[]
  readonly code: string | undefined
  /** Fixed text of the program. */
  readonly text: string | undefined

  constructor(name: string, at: readonly string[], known: { code?: string; text?: string } = {}) {
    this.class = name
    this.at = at
    this.code = known.code
    this.text = known.text
  }
}

const PLACES_MAX = 20

/** What may be shown of whatever was thrown. Never throws. */
export function shownFault(thrown: unknown): Fault {
  if (!(thrown instanceof Error)) return new Fault(typeof thrown, [])
  try {
    const { code } = thrown as { code?: unknown }
    const name = /^\w{1,40}$/.exec(thrown.constructor.name)?.[0] ?? 'Error'
    const isCode = typeof code === 'string' && /^[A-Z][A-Z\d_]{1,60}$/.test(code)
    return new Fault(name, placesOf(thrown), isCode ? { code } : {})
  } catch {
    // Getters of an error can throw, too.
    return new Fault('Error', [])
  }
}

/** Lines of a message may look like places: the message is cut off, and where that fails, so is the stack. */
export function placesOf({ message, stack = '' }: { message: string; stack?: string }): string[] {
  const at = stack.indexOf(message)
  if (at === -1) return []
  const places = stack
    .slice(at + message.length)
    .matchAll(/^ {4}at (?:.* \()?((?:file:\/\/|node:|\/)[^\s()]*:\d+:\d+)\)?$/gm)
  return Array.from(places, ([, place = '']) => place).slice(0, PLACES_MAX)
}

/** The text for standard error: class, code and places. */
export function faultText(thrown: unknown): string {
  const { class: name, code, at } = shownFault(thrown)
  const title = code === undefined ? name : `${name} ${code}`
  return [title, ...at.map((one) => `    at ${one}`), ''].join('\n')
}

export const FAULT_OUTCOMES = ['sent', 'failed', 'repeated', 'limited', 'overflow'] as const
export type FaultOutcome = (typeof FAULT_OUTCOMES)[number]
