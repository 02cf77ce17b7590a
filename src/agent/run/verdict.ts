// The verdict of an attempt, and whether it rests on a time that our own delay has stretched: such a verdict is
// none about the target.
import { failure, type Failure } from '../../contract/failure.ts'
import type { Verdict } from '../../contract/result.ts'
import type { DelayEffect } from '../../contract/assertion.ts'
import { aboutWhom, DEFINITIONS, FAILURES } from '../../monitors/definitions.ts'
import { LIMITS } from '../../contract/versions.ts'
import type { Observation } from '../../contract/observation.ts'

/** The times of an attempt, milliseconds. */
export interface AttemptTimes {
  elapsedMs: number
  deadlineMs: number
  /** How long our event loop was late in it, all in all. */
  delayMs: number
}

/** A timeout is attributed to us only from this share of delay in the attempt. */
const DELAY_SHARE_MIN = 0.1

/**
 * The verdict that follows from what was seen. A fault of ours outweighs everything, because with it
 * nothing can be said about the target.
 */
export function verdictOf(failures: readonly Failure[], degraded: boolean): Verdict {
  if (failures.some((one) => one.code === 'CANCELLED')) return 'cancelled'
  if (failures.some((one) => aboutWhom(one) === 'agent')) return 'errored'
  if (failures.length > 0) return 'failed'
  return degraded ? 'degraded' : 'passed'
}

/** Sources of assertions by what our own delay may do to them. */
const sourcesWith = (effect: DelayEffect): ReadonlySet<unknown> =>
  new Set(
    [...DEFINITIONS.values()].flatMap(({ sources = {} }) =>
      Object.keys(sources).filter((name) => sources[name]?.delay === effect),
    ),
  )
const STRETCHED = sourcesWith('stretched')
const CUT_SHORT = sourcesWith('cut-short')

/** Whether the attempt would probably have ended better without our delay. */
export function isMadeByDelay(
  { observed, failures, responseTimeMs, degraded = false }: Observation,
  monitor: unknown,
  times: AttemptTimes,
): boolean {
  const { delayMs } = times
  if (delayMs < LIMITS.agentDelayMsMax) return false
  if (failures.length > 0) return failures.every((one) => isByDelay(one, times))
  // SSL monitors name other reasons for degraded.
  if (!degraded || observed['degradedBy'] !== undefined) return false
  const { degradedResponseTime: limitMs } = monitor as { degradedResponseTime?: number }
  if (responseTimeMs === undefined || limitMs === undefined) return false
  return responseTimeMs - delayMs <= limitMs
}

/** The attempt without its verdict: nothing is known about the target. */
export function withoutVerdict(observation: Observation, { delayMs }: AttemptTimes): Observation {
  const { observed, failures, undisclosed } = observation
  const codes = failures.length === 0 ? ['degraded'] : failures.map(({ code }) => code)
  const ms = Math.round(delayMs)
  const cause = `event loop of the agent was ${ms} ms late in the repeated attempt`
  const message = `${cause}: ${codes.join(', ')} may come from that (give it more CPU or fewer monitors)`
  const overloaded = failure('AGENT_OVERLOADED', message, { delayMs: ms, instead: codes })
  return { observed, failures: [overloaded], ...(undisclosed && { undisclosed }) }
}

function isByDelay(failed: Failure, times: AttemptTimes): boolean {
  if (aboutWhom(failed) === 'agent') return false
  const { code, details = {} } = failed
  if (code === 'RESPONSE_TIME_ABOVE_MAX')
    return Number(details['responseTimeMs']) - times.delayMs <= Number(details['maxMs'])
  if (code === 'ASSERTION_FAILED' && STRETCHED.has(details['source']))
    return isAssertedTimeByDelay(details, times.delayMs)
  return isTimed(failed) && isCutShort(times)
}

function isAssertedTimeByDelay(details: Record<string, unknown>, delayMs: number): boolean {
  const { comparison, actual, target } = details
  // Without the delay the time would be shorter still.
  if (comparison === 'GREATER_THAN') return false
  return comparison !== 'LESS_THAN' || Number(actual) - delayMs < Number(target)
}

/** Whether something did not arrive in time. Time-outs of user code are measured elsewhere. */
function isTimed({ code, details = {} }: Failure): boolean {
  const timed = FAILURES[code]?.timed
  if (timed !== undefined) return timed === true || timed(details)
  return code === 'ASSERTION_FAILED' && CUT_SHORT.has(details['source'])
}

/** Whether the target had noticeably less time than its deadline allows. */
function isCutShort({ elapsedMs, deadlineMs, delayMs }: AttemptTimes): boolean {
  const hadMs = elapsedMs - delayMs
  // A deadline of 60 ms has no 50 ms to spare.
  const spareMs = Math.min(LIMITS.agentDelayMsMax, deadlineMs * DELAY_SHARE_MIN)
  return delayMs >= elapsedMs * DELAY_SHARE_MIN && hadMs < deadlineMs - spareMs
}
