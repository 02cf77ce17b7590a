// Runs one monitor of a type for tests of its observation.
import type { AnyMonitorType } from '../../../src/monitors/monitor.ts'
import { deadlineAfter, testContext, type ContextOptions } from './monitor-context.ts'

/** The codes of a check's failures. */
export const codesOf = async (checking: Promise<{ codes: string[] }>) => (await checking).codes

/** Checks `request` within the monitor's own deadline; `more` adds to the definition. */
export async function checkMonitor(
  type: AnyMonitorType,
  request: object,
  more: object = {},
  options: ContextOptions = {},
) {
  const { checkType } = type
  const monitor = type.schema.parse({ id: 'm', name: 'm', checkType, request, ...more })
  const signal = options.signal ?? deadlineAfter(type.deadlineMs(monitor))
  const observation = await type.prepare(monitor)(testContext({ ...options, signal }))
  return { ...observation, codes: observation.failures.map(({ code }) => code) }
}
