// Queue classes of an agent, so that uptime checks never wait behind browsers and scripts.
import type { UserCode } from '../../contract/type/definition.ts'
import type { Monitor } from '../../contract/monitor.ts'
import { DEFINITIONS } from '../../monitors/definitions.ts'

/** Class of a job queue. */
export type QueueClass = 'uptime' | 'scripted'

/** Whether a monitor is a program, which may write anything anywhere. */
export function isProgram(monitor: Monitor): boolean {
  return userCodeOf(monitor) === 'program'
}

/** Queue class of a monitor's jobs. */
export function queueClassOf(monitor: Monitor): QueueClass {
  return userCodeOf(monitor) === undefined ? 'uptime' : 'scripted'
}

function userCodeOf(monitor: Monitor): UserCode | undefined {
  return DEFINITIONS.get(monitor.checkType)?.userCode?.(monitor)
}
