// Failures of a run that are defects of the agent itself and worth reporting to its maintainers.
import type { Failure, FailureCode } from '../../contract/failure.ts'
import type { Fault } from '../../process/faults/fault.ts'

/** Codes of defects in the agent, whatever the target and the settings are. */
const OWN_FAULTS: ReadonlySet<string> = new Set<FailureCode>(['INTERNAL', 'DEADLINE_IGNORED'])

/** The fault behind a failure; undefined where it concerns the target, the settings or the machine. */
export function ownFault(failed: Failure, checkType: string): Fault | undefined {
  const { code, message, details } = failed
  if (!OWN_FAULTS.has(code)) return undefined
  const [, type = code, text = message] = /^(\w*Error): (.*)$/s.exec(message) ?? []
  const stack = details?.['stack']
  // Without a stack only the check type leads to the place.
  return typeof stack === 'string'
    ? { type, message: text, stack }
    : { type, message: `${text} (${checkType})` }
}
