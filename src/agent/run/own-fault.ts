// Which failures of a run are mistakes in the program itself, worth telling those who keep it.
import type { Failure, FailureCode } from '../../contract/failure.ts'
import type { Fault } from '../../process/faults/fault.ts'

/** They stand for a mistake in the program, whatever the target and the settings are. */
const OWN_FAULTS: ReadonlySet<FailureCode> = new Set<FailureCode>(['INTERNAL', 'DEADLINE_IGNORED'])

/** The fault that a failure stands for; undefined where it is about the target, the settings or the machine. */
export function ownFault(failed: Failure, checkType: string): Fault | undefined {
  const { code, message, details } = failed
  if (!OWN_FAULTS.has(code)) return undefined
  const [, type = code, words = message] = /^(\w*Error): (.*)$/s.exec(message) ?? []
  const stack = details?.['stack']
  // Without a place in the program the kind of check is all that leads there.
  return typeof stack === 'string'
    ? { type, message: words, stack }
    : { type, message: `${words} (${checkType})` }
}
