// Heartbeat monitors in the public wire form: nothing is sent; the watched job pings the platform.
import * as z from 'zod'
import { aboutTarget, type FailureTable } from '../../contract/failure.ts'
import { monitorSchema } from '../../contract/monitor.ts'
import { defineType } from '../../contract/type/definition.ts'

const UNITS = ['seconds', 'minutes', 'hours', 'days'] as const
const UNIT_SECONDS = { seconds: 1, minutes: 60, hours: 3600, days: 86_400 } as const
const unit = z.enum(UNITS)
const SECONDS_MAX = 365 * UNIT_SECONDS.days

/** How often a ping is awaited, and how late it may be. */
export const Heartbeat = z
  .strictObject({
    /** 30 seconds to 365 days. */
    period: z.number().gt(0),
    periodUnit: unit,
    /** At most 365 days. */
    grace: z.number().min(0),
    graceUnit: unit,
    /** Part of the address that is pinged; the platform makes one where it is left out. */
    pingToken: z.guid().optional(),
  })
  .superRefine(({ period, periodUnit, grace, graceUnit }, context) => {
    const seconds = period * UNIT_SECONDS[periodUnit]
    if (seconds < 30 || seconds > SECONDS_MAX) {
      const message = 'must be 30 seconds to 365 days'
      context.addIssue({ code: 'custom', path: ['period'], message })
    }
    if (grace * UNIT_SECONDS[graceUnit] > SECONDS_MAX) {
      context.addIssue({ code: 'custom', path: ['grace'], message: 'must be at most 365 days' })
    }
  })
export type Heartbeat = z.infer<typeof Heartbeat>

/** Period and grace in milliseconds. */
export function heartbeatTiming({ period, periodUnit, grace, graceUnit }: Heartbeat) {
  return {
    periodMs: Math.round(period * UNIT_SECONDS[periodUnit] * 1000),
    graceMs: Math.round(grace * UNIT_SECONDS[graceUnit] * 1000),
  }
}

const FAILURES = {
  HEARTBEAT_MISSED: aboutTarget('no ping arrived within period and grace'),
  HEARTBEAT_FAILED: aboutTarget('the job reported a failure, or an exit code other than 0'),
} as const satisfies FailureTable

const HeartbeatMonitor = monitorSchema('HEARTBEAT', { heartbeat: Heartbeat })
type HeartbeatMonitor = z.infer<typeof HeartbeatMonitor>

export const heartbeatDefinition = defineType({
  checkType: 'HEARTBEAT',
  path: 'heartbeat',
  schema: HeartbeatMonitor,
  example: { heartbeat: { period: 1, periodUnit: 'hours', grace: 0, graceUnit: 'days' } },
  failures: FAILURES,
  metrics: {},
  analytics: { paths: ['heartbeat-checks'] },
  isPinged: true,
  isNeverRetried: true,
})
