// Queue classes of an agent, so that uptime checks never wait behind browsers and scripts.
import { scriptFields } from '../../contract/http-monitor.ts'
import type { Monitor } from '../../contract/monitor.ts'

/** Class of a job queue. */
export type QueueClass = 'uptime' | 'scripted'

const SCRIPTED: ReadonlySet<string> = new Set(['BROWSER', 'MULTI_STEP', 'PLAYWRIGHT'])

/** Whether a monitor is a program, which may write anything anywhere. */
export function isProgram(monitor: Monitor): boolean {
  return SCRIPTED.has(monitor.checkType)
}

/** Queue class of a monitor's jobs. */
export function queueClassOf(monitor: Monitor): QueueClass {
  if (isProgram(monitor)) return 'scripted'
  return monitor.checkType === 'API' && scriptFields(monitor).length > 0 ? 'scripted' : 'uptime'
}
