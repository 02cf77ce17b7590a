// The two ways through an agent, so that uptime work never waits behind browsers and scripts.
import { scriptFields } from '../contract/http-monitor.ts'
import type { Monitor } from '../contract/monitor.ts'

/** A queue of the agent. */
export type Lane = 'uptime' | 'scripted'

const SCRIPTED: ReadonlySet<string> = new Set(['BROWSER', 'MULTI_STEP', 'PLAYWRIGHT'])

/** The queue that a monitor's jobs go through. */
export function laneOf(monitor: Monitor): Lane {
  if (SCRIPTED.has(monitor.checkType)) return 'scripted'
  return monitor.checkType === 'API' && scriptFields(monitor).length > 0 ? 'scripted' : 'uptime'
}
