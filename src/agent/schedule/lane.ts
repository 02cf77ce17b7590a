// The two ways through an agent, so that uptime work never waits behind browsers and scripts.
import { scriptFields } from '../../contract/http-monitor.ts'
import type { Monitor } from '../../contract/monitor.ts'

/** A queue of the agent. */
export type Lane = 'uptime' | 'scripted'

const SCRIPTED: ReadonlySet<string> = new Set(['BROWSER', 'MULTI_STEP', 'PLAYWRIGHT'])

/** Whether a monitor is a program in itself, which may write anything anywhere. */
export function isProgram(monitor: Monitor): boolean {
  return SCRIPTED.has(monitor.checkType)
}

/** The queue that a monitor's jobs go through. */
export function laneOf(monitor: Monitor): Lane {
  if (isProgram(monitor)) return 'scripted'
  return monitor.checkType === 'API' && scriptFields(monitor).length > 0 ? 'scripted' : 'uptime'
}
